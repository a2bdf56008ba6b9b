import { SECRETS_LOOK_MS } from '../../service/signing-secrets.ts';
import { withStore } from '../database.ts';
import { explainStored } from '../doctor/delivery.ts';
import { printable } from '../text.ts';
import { commandOf, save, setFound, type Talk } from './talk.ts';
import { type Trial, waitUntil } from './trial.ts';

/** A signature is found out in steps: its header's name, then what is signed. */
const RECIPE_STEPS = 4;
/** Writes the settings as they are now, and has the mirror run by them. False: one that is not ours runs. */
export async function applySettings(talk: Talk, trial: Trial): Promise<boolean> {
  await save(talk);
  if (trial.service() === null) {
    talk.say('Start the running service again, so that it takes them.');
    return false;
  }
  await trial.restart();
  return true;
}

/** The last delivery that was accepted and the last one that was rejected, or null. */
async function arrivals(talk: Talk) {
  return await withStore(commandOf(talk), 'read', async (store) => {
    const [lastRejected = null] = await store.list('rejections', { limit: 1 });
    const { last_delivery_at: lastAccepted } = await store.summary();
    // Deliveries fit: one was accepted, and none was rejected after it.
    const isProven = lastAccepted !== null && (lastRejected === null || lastRejected.at <= lastAccepted);
    return { lastAccepted, lastRejected, isProven };
  });
}

/** Waits for a delivery that is taken; one that is rejected tells how it is signed, and what is found out is set. */
export async function learnRecipe(talk: Talk, trial: Trial): Promise<void> {
  const { say, asker, options } = talk;
  const before = await arrivals(talk);
  if (before.isProven) {
    say(`Deliveries are taken: the last one at ${before.lastAccepted}.`);
    return;
  }
  say(
    `Waiting for a first delivery: change something in the compliance service${asker.isPerson ? '. Enter goes on without' : ''}.`,
  );
  // Those that came before the secret are known to, and nothing of them was kept.
  let examined = before.lastRejected?.reason === 'no_signing_secret' ? before.lastRejected.id : 0;
  // A secret that was stored just now is in use by then.
  const takenUpAt = performance.now() + 2 * SECRETS_LOOK_MS;
  const shown = new Set<string>();
  const until = performance.now() + options.wait;
  for (;;) {
    const seen = await waitUntil(talk, trial, until - performance.now(), async () => {
      const now = await arrivals(talk);
      if (now.isProven || now.lastAccepted !== before.lastAccepted) return 'accepted' as const;
      const { lastRejected } = now;
      if (lastRejected === null || lastRejected.id <= examined) return null;
      if (lastRejected.reason !== 'no_signing_secret' || performance.now() > takenUpAt)
        return lastRejected.id;
      examined = lastRejected.id;
      return null;
    });
    if (seen === 'accepted') say('A delivery was taken: its signature fits.');
    if (seen === 'late') {
      say(
        'No delivery that fits has come. Look at the delivery log of the compliance service, and at the way from there; "setup" can be run again.',
      );
    }
    if (typeof seen !== 'number') return;
    examined = seen;
    if (!(await examine(talk, trial, seen, shown))) continue;
    if (!(await applySettings(talk, trial))) return;
    say('Waiting for the sender to try again.');
  }
}

/** Whether settings were found under which the delivery fits, or comes nearer. */
async function examine(talk: Talk, trial: Trial, id: number, shown: Set<string>): Promise<boolean> {
  const { draft } = talk;
  let hasBegun = false;
  const say = (line: string) => {
    // Senders try again, and each attempt shows the same.
    if (shown.has(line)) return;
    shown.add(line);
    if (!hasBegun) talk.say('A delivery came, and was rejected. What it shows:');
    hasBegun = true;
    talk.say(line);
  };
  let isChanged = false;
  for (let step = 0; step < RECIPE_STEPS; step += 1) {
    const own = `${draft.config().webhook.header}:`;
    const header = trial.lastHeaders().filter((line) => !line.toLowerCase().startsWith(own));
    const { causes } = await explainStored(commandOf(talk), `rejection:${id}`, { header });
    const found = causes.flatMap(({ settings = {} }) => Object.entries(settings));
    for (const { what, remedy, settings } of causes) {
      say(`  ${printable(what)}${settings === undefined ? ` What to do: ${printable(remedy)}` : ''}`);
    }
    const open = found.filter(([name, value]) => draft.get(name) !== value && !draft.isFixed(name));
    for (const [name, value] of found) setFound(talk, name, value);
    if (open.length === 0) return isChanged;
    isChanged = true;
  }
  return isChanged;
}
