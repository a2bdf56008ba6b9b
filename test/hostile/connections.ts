import { setTimeout as sleep } from 'node:timers/promises';
import { type Attack, type Counts, noCounts } from './attack.ts';
import { addresses, count, open, post, type Wire } from './wire.ts';

/** How long they stay; the others ask all the while, each second time over a new connection. */
const HOLD_MS = { full: 12_000, short: 1_500 };
/** Whoever holds them opens those anew that were taken away. */
const AGAIN_MS = 250;

/** What an idle connection has said before: nothing, half a request, a whole one that anybody may make, a forged delivery. */
const WORDS: readonly (string | Buffer)[] = [
  '',
  'POST /webhooks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le',
  'GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n',
  post('{}'),
];

/** Keeps as many connections as it can get. */
async function occupy(
  port: number,
  from: readonly string[],
  size: number,
  length: 'full' | 'short',
): Promise<Counts> {
  const counts = noCounts();
  const wires: Wire[] = [];
  let opened = 0;
  const fill = (position: number) => {
    const wire = open({ port, from: from[position % from.length]! });
    opened += 1;
    const words = WORDS[opened % WORDS.length]!;
    if (words.length > 0) wire.socket.write(words);
    wires[position] = wire;
  };
  for (let position = 0; position < size; position++) fill(position);
  const until = performance.now() + HOLD_MS[length];
  let most = 0;
  while (performance.now() < until) {
    await sleep(AGAIN_MS);
    let alive = 0;
    for (const [position, wire] of wires.entries()) {
      if (wire.socket.readyState === 'open') alive += 1;
      if (!wire.socket.destroyed) continue;
      // What was answered is of no interest: a probe and a rejection are rightly answered.
      count(counts, wire, 0);
      fill(position);
    }
    most = Math.max(most, alive);
  }
  for (const wire of wires) {
    wire.socket.destroy();
    count(counts, wire, 0);
  }
  counts.unanswered = opened - counts.served - counts.rejected;
  counts.note = `${opened} connections opened, at most ${most} at once`;
  return counts;
}

const idle: Attack = {
  unit: 'idle connections from one address',
  size: { full: 900, short: 900 },
  strike: ({ port }, size, length) => occupy(port, addresses(9, 1), size, length),
};

const idleMany: Attack = {
  unit: 'idle connections from four addresses',
  size: { full: 1_200, short: 1_200 },
  strike: ({ port }, size, length) => occupy(port, addresses(10, 4), size, length),
};

const idleOperators: Attack = {
  unit: "idle connections to the operators' listener, from four addresses",
  size: { full: 1_200, short: 1_200 },
  strike: ({ opsPort }, size, length) => occupy(opsPort, addresses(11, 4), size, length),
};

export const CONNECTION_ATTACKS = { idle, 'idle-many': idleMany, 'idle-operators': idleOperators };
