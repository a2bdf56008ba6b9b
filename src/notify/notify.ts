import type { Clock } from '../platform/clock.ts';
import { describeError } from '../platform/errors.ts';
import { attempted, look, NOTHING_SENT, type NotifyState, type Verdict } from './decide.ts';

/** How often the verdict is looked at: at least twice within the shortest time for which a verdict must last. */
const LOOK_MS = 1_000;
/** A receiver that takes longer is tried again. */
const TIMEOUT_MS = 10_000;
/** After this time, a replica that lost the lease before us has saved the topic that it sent last. */
const SURE_AFTER_MS = 15_000;
/** The topic last sent, kept across restarts: the same news is not sent twice. */
const SENT_FACT = 'notified';

interface NotifierOptions {
  /** https, or loopback. May hold a secret in its path, and so is never logged. */
  url: URL;
  format: 'json' | 'slack';
  clock: Clock;
  random: () => number;
  verdict(): Promise<Verdict>;
  facts: {
    readFact(name: string): Promise<string | null>;
    writeFact(name: string, value: string): Promise<void>;
  };
  /** Sent with each verdict, so that one receiver can serve several mirrors. `operators`: the status page's address. */
  about: { version: string; operators: string };
  onAttempt(attempt: { topic: string; ok: boolean; error: string | null }): void;
  onError(error: unknown): void;
}

/**
 * Sends each change of the verdict to NOTIFY_URL, one at a time, until `signal` aborts. Never rejects. A verdict that was sent
 * while the database was down is not saved yet. Then this goes on after the loss of the lease until it is saved, or `stopping`
 * aborts.
 */
export async function notify(
  options: NotifierOptions,
  signal: AbortSignal,
  stopping: AbortSignal = signal,
): Promise<void> {
  const { clock, facts } = options;
  const sureAt = clock.steady() + SURE_AFTER_MS;
  let state: NotifyState | null = null;
  let saved: string | null = null;
  let unsaved: string | null = null;

  async function lastSent(): Promise<string | null> {
    const before = saved;
    saved = await facts.readFact(SENT_FACT);
    // Another replica has sent something since.
    if (saved !== before) unsaved = null;
    return unsaved ?? saved;
  }

  async function save(): Promise<void> {
    if (unsaved !== null) await lastSent();
    if (unsaved === null) return;
    await facts.writeFact(SENT_FACT, unsaved);
    saved = unsaved;
    unsaved = null;
  }

  while (!signal.aborted) {
    try {
      if (state === null || clock.steady() < sureAt)
        state = { ...(state ?? NOTHING_SENT), sent: await lastSent() };
      const verdict = await options.verdict();
      const seen = look(state, verdict, clock.steady());
      const before = state.sent;
      state = seen.state;
      if (seen.isDue) {
        const error = await post(options, verdict, before, signal);
        if (error !== null && signal.aborted) break;
        state = attempted(state, error === null, clock.steady(), options.random());
        options.onAttempt({ topic: state.topic ?? '', ok: error === null, error });
        if (error === null) unsaved = state.sent;
      }
      await save();
    } catch (error) {
      options.onError(error);
    }
    await clock.sleep(LOOK_MS, signal);
  }
  while (unsaved !== null && !stopping.aborted) {
    await clock.sleep(LOOK_MS, stopping);
    await save().catch(options.onError);
  }
}

/** Null: it was received. Otherwise the error, without the address. */
async function post(
  options: NotifierOptions,
  verdict: Verdict,
  before: string | null,
  signal: AbortSignal,
): Promise<string | null> {
  const previous = before?.split(':')[0] ?? null;
  try {
    const response = await fetch(options.url, {
      method: 'POST',
      // The news is for this receiver, not for an address that it redirects to.
      redirect: 'error',
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
      headers: {
        'content-type': 'application/json',
        'user-agent': `compliance-mirror/${options.about.version}`,
      },
      body: JSON.stringify(messageOf(options, verdict, previous)),
    });
    await response.body?.cancel();
    return response.ok ? null : `it answered ${response.status}`;
  } catch (error) {
    return describeError(error instanceof Error && error.cause !== undefined ? error.cause : error);
  }
}

/** The message, to be sent as JSON. `previous`: the verdict sent before. */
function messageOf(
  { format, about: { version, operators }, clock }: NotifierOptions,
  verdict: Verdict,
  previous: string | null,
): object {
  if (format === 'slack') return { text: slackText(verdict, operators) };
  const { verdict: name, reason, sentence, remedy, since } = verdict;
  return {
    service: 'compliance-mirror',
    version,
    operators,
    verdict: name,
    reason,
    sentence,
    remedy,
    since,
    previous,
    at: new Date(clock.wall()).toISOString(),
  };
}

/** In the markup of Slack's incoming webhooks, which Mattermost and Rocket.Chat take too. */
function slackText({ verdict, sentence, remedy }: Verdict, operators: string): string {
  const name = verdict.replaceAll('_', ' ');
  const lines = [
    `*compliance-mirror: ${name}*`,
    escaped(sentence),
    ...(remedy === null ? [] : [`What to do: ${escaped(remedy)}`]),
    `<${operators}|Status page>`,
  ];
  return lines.join('\n');
}

/** Escapes the characters that Slack would take for a link, a mention or an entity. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
