import { getPriority, setPriority } from 'node:os';
import { ATTACKS, type Target } from './attacks.ts';

/** How far behind everybody else in the queue for the processor an attacker stands: its own work is nobody's wait. */
const BEHIND = 7;

export interface StrikeMessage {
  name: string;
  target: Target;
  size: number;
  holdMs: number;
}

/** `node attacker.ts`: one attack in a process of its own. */
setPriority(Math.min(19, getPriority() + BEHIND));
process.on('message', async ({ name, target, size, holdMs }: StrikeMessage) => {
  const counts = await ATTACKS[name]!.strike(target, size, holdMs);
  process.send!(counts, () => process.exit());
});
