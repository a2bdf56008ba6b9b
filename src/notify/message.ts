import { describeError } from '../platform/errors.ts';
import type { Problem } from './decide.ts';

/** A receiver that takes longer is tried again. */
const TIMEOUT_MS = 10_000;

/** Where it goes, and whom it is from. */
export interface Address {
  /** May hold a secret in its path, and so is never logged. */
  url: URL;
  version: string;
  /** The status page's address. */
  operators: string;
}

export interface Message {
  what: 'opened' | 'resolved' | 'test';
  /** Null: of a test. */
  problem: Problem | null;
  /** By kind. */
  verdicts: Readonly<Record<string, string>>;
}

/** Null: it was received. Otherwise the error, without the address. */
export async function send(to: Address, message: Message, signal: AbortSignal): Promise<string | null> {
  try {
    const response = await fetch(to.url, {
      method: 'POST',
      // The news is for this receiver, not for an address that it redirects to.
      redirect: 'error',
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
      headers: { 'content-type': 'application/json', 'user-agent': `compliance-mirror/${to.version}` },
      body: JSON.stringify(bodyOf(to, message)),
    });
    await response.body?.cancel();
    return response.ok ? null : `it answered ${response.status}`;
  } catch (error) {
    return describeError(error instanceof Error && error.cause !== undefined ? error.cause : error);
  }
}

/** Slack's incoming webhooks take nothing but their own form. */
const isSlack = ({ hostname }: URL) => /(^|\.)slack(-gov)?\.com$/.test(hostname);

/** To be sent as JSON. Pure. */
export function bodyOf(
  { url: address, operators }: Pick<Address, 'url' | 'operators'>,
  message: Message,
): object {
  const { what, problem, verdicts } = message;
  const url = problem === null ? operators : `${operators}/#problem-${problem.id}`;
  return isSlack(address) ? { text: slackText(message, url) } : { what, problem, verdicts, url };
}

const words = (code: string) => code.replaceAll('_', ' ');

/** In the markup of Slack's incoming webhooks. */
function slackText({ what, problem, verdicts }: Message, url: string): string {
  const about = problem?.record_id ?? (problem?.kind == null ? null : words(problem.kind));
  const lines = [
    `*compliance-mirror: ${what === 'opened' ? words(problem!.verdict) : what}*`,
    problem?.sentence ?? 'This is a test.',
    about !== null && `About: ${about}`,
    what === 'opened' && problem!.error,
    what === 'opened' && `What to do: ${problem!.action}`,
    Object.entries(verdicts)
      .map(([kind, verdict]) => `${words(kind)}: ${words(verdict)}`)
      .join(', '),
  ].filter((line) => typeof line === 'string' && line !== '');
  const [head, ...rest] = lines as [string, ...string[]];
  return [head, ...rest.map(escaped), `<${url}|Status page>`].join('\n');
}

/** Escapes the characters that Slack would take for a link, a mention or an entity. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
