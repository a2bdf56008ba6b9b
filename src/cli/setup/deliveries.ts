import { RECEIVER_PATH } from '../../compliance/registration.ts';
import { MirrorError } from '../../platform/errors.ts';
import { SECRETS_LOOK_MS } from '../../service/signing-secrets.ts';
import { withStore } from '../database.ts';
import { explainStored } from '../doctor/delivery.ts';
import { DifferenceFound, explain } from '../exit.ts';
import { DEFAULT_DESCRIPTION, DEFAULT_EVENTS, register } from '../register.ts';
import { printable } from '../text.ts';
import { settleSecret } from './secret.ts';
import { commandOf, save, setFound, settle, type Talk } from './talk.ts';
import { arrivals, isProven, startTrial, type Trial, waitUntil } from './trial.ts';

/** A signature is found out in steps: its header's name, then what is signed. */
const RECIPE_STEPS = 4;
/** What an answer to the address of the receiver says to register by other means. */
const BY_OTHER_MEANS = '-';

/** The address to register, or null: nothing is registered from here. */
export async function askForHook(talk: Talk): Promise<string | null> {
  const { draft, asker, options, say } = talk;
  const hasSecret = () =>
    draft.get('WEBHOOK_SECRETS') !== undefined || draft.get('WEBHOOK_SECRETS_FILE') !== undefined;
  if (options.webhookSecretsFile !== undefined) {
    await settle(talk, 'WEBHOOK_SECRETS', {
      ...{ text: 'Signing secret', flag: '--webhook-secrets-file', givenFile: options.webhookSecretsFile },
    });
  }
  if (!options.register) {
    await askForSecret(talk);
    return null;
  }
  if (options.url !== undefined) return options.url;
  const { host, port, compliance } = draft.config();
  const held = await registeredUrl(talk);
  const isLocal = compliance !== null && compliance.baseUrl.protocol === 'http:';
  const local = isLocal ? `http://${host}:${port}${RECEIVER_PATH}` : undefined;
  const otherwise = held ?? (hasSecret() ? BY_OTHER_MEANS : local);
  for (;;) {
    const answer = await asker.ask({
      text: `Address at which the compliance service reaches this receiver (https://…${RECEIVER_PATH}; ${BY_OTHER_MEANS}: it is registered by other means)`,
      flag: '--url, or --no-register',
      ...(otherwise === undefined ? {} : { otherwise }),
    });
    const url = answer === '' ? otherwise : answer;
    if (url === BY_OTHER_MEANS) {
      await askForSecret(talk);
      return null;
    }
    if (url !== undefined && URL.canParse(url)) return url;
    say(`That is no address; it is one such as https://mirror.example.com${RECEIVER_PATH}`);
  }
}

async function askForSecret(talk: Talk): Promise<void> {
  const { draft, asker } = talk;
  if (!asker.isPerson || talk.options.webhookSecretsFile !== undefined) return;
  const isSet = draft.get('WEBHOOK_SECRETS') !== undefined || draft.get('WEBHOOK_SECRETS_FILE') !== undefined;
  if (isSet) return;
  await settle(talk, 'WEBHOOK_SECRETS', {
    ...{ text: 'Signing secret that the service shows', flag: '--webhook-secrets-file', isHidden: true },
  });
}

/** The address of the newest stored registration; null: there is none, or no database that can be read. */
async function registeredUrl(talk: Talk): Promise<string | undefined> {
  try {
    return await withStore(commandOf(talk), 'read', async (store) => {
      const held = await store.listRegistrations();
      return held.findLast(({ expiresWall }) => expiresWall === null)?.url;
    });
  } catch (error) {
    // None yet, or one that the service will migrate.
    if (error instanceof MirrorError) return undefined;
    throw error;
  }
}

export async function registerHook(talk: Talk, trial: Trial, first: string): Promise<void> {
  const { asker, say } = talk;
  for (let url: string = first; ; ) {
    try {
      await register(commandOf(talk), { url, events: DEFAULT_EVENTS, description: DEFAULT_DESCRIPTION });
      talk.sent += 1;
      return;
    } catch (error) {
      // It is registered, and lacks nothing but its secret.
      if (error instanceof DifferenceFound) {
        if (await settleSecret(talk, url, error)) await takeUp(talk, trial);
        return;
      }
      if (!(error instanceof MirrorError) || !asker.isPerson) throw error;
      say(explain(error, { debug: false }).trimEnd());
      const text = `Another address, or ${BY_OTHER_MEANS} to go on without registering`;
      const answer = await asker.ask({ text, otherwise: BY_OTHER_MEANS, flag: '--url' });
      if (answer === '' || answer === BY_OTHER_MEANS) return;
      url = answer;
    }
  }
}

/** Writes the settings as they are now, and has the mirror run by them. False: one that is not ours runs. */
async function takeUp(talk: Talk, trial: Trial): Promise<boolean> {
  await save(talk);
  if (trial.service() === null) {
    talk.say('Start the running service again, so that it takes them.');
    return false;
  }
  await trial.restart(talk.draft.config());
  return true;
}

export async function begin(talk: Talk): Promise<Trial> {
  const { draft, sent, signal, clock } = talk;
  const trial = await startTrial(commandOf(talk), draft.config(), sent, signal, clock);
  const service = trial.service();
  talk.say(
    service === null
      ? '\nA service runs on this database already, and is made use of.'
      : `\nThe mirror runs for the time of this setup; deliveries are taken at ${service.receiverUrl}${RECEIVER_PATH}.`,
  );
  return trial;
}

/** Waits for a delivery that is taken; one that is rejected tells how it is signed, and what is found out is set. */
export async function learnRecipe(talk: Talk, trial: Trial): Promise<void> {
  const { say, asker, options, signal } = talk;
  const before = await arrivals(commandOf(talk));
  if (isProven(before)) {
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
  const told = new Set<string>();
  const until = performance.now() + options.wait;
  for (;;) {
    const seen = await waitUntil(
      async () => {
        const now = await arrivals(commandOf(talk));
        if (isProven(now) || now.lastAccepted !== before.lastAccepted) return 'accepted' as const;
        const { lastRejected } = now;
        if (lastRejected === null || lastRejected.id <= examined) return null;
        if (lastRejected.reason !== 'no_signing_secret' || performance.now() > takenUpAt)
          return lastRejected.id;
        examined = lastRejected.id;
        return null;
      },
      { waitMs: until - performance.now(), asker, failed: trial.service()?.failed ?? null, signal },
    );
    if (seen === 'accepted') say('A delivery was taken: its signature fits.');
    if (seen === 'late') {
      say(
        'No delivery that fits has come. Look at the delivery log of the compliance service, and at the way from there; "setup" can be run again.',
      );
    }
    if (typeof seen !== 'number') return;
    examined = seen;
    if (!(await examine(talk, trial, seen, told))) continue;
    if (!(await takeUp(talk, trial))) return;
    say('Waiting for the sender to try again.');
  }
}

/** Whether settings were found under which the delivery fits, or comes nearer. */
async function examine(talk: Talk, trial: Trial, id: number, told: Set<string>): Promise<boolean> {
  const { draft } = talk;
  let hasBegun = false;
  const say = (line: string) => {
    // Senders try again, and each attempt shows the same.
    if (told.has(line)) return;
    told.add(line);
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
