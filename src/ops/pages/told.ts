import { count } from '../words.ts';

/** What a form did, carried by the address that it leads back to, as words of our own and numbers only. */
export interface Outcome {
  what: 'retried' | 'discarded' | 'queued' | 'compared' | 'refetched' | 'released' | 'approved' | 'resolved';
  done: number;
  /** Asked for, and not possible any more. */
  not: number;
}

export function toldParam({ what, done, not }: Outcome): string {
  return `${what}.${done}.${not}`;
}

/** Null: nothing was done, or somebody typed it. */
export function toldText(param: string | undefined): string | null {
  const [, what = '', done = '', not = ''] = /^([a-z]+)\.(\d{1,6})\.(\d{1,6})$/.exec(param ?? '') ?? [];
  const say = Object.hasOwn(SENTENCES, what) ? SENTENCES[what as Outcome['what']] : null;
  if (say === null) return null;
  const rest =
    Number(not) === 0
      ? ''
      : ` ${count(Number(not), 'other')} could not be: ${WHY_NOT[what as Outcome['what']] ?? 'the state had changed'}.`;
  return `${say(Number(done))}${rest}`;
}

const WHY_NOT: Partial<Record<Outcome['what'], string>> = { retried: 'the error stands beside each' };

const SENTENCES: Record<Outcome['what'], (done: number) => string> = {
  retried: (done) => `${count(done, 'event')} processed.`,
  discarded: (done) => `${count(done, 'event')} discarded.`,
  queued: () => 'The full sync was asked for; it begins when the one before it has ended.',
  compared: () => 'The dry run has begun. What it finds will stand below.',
  refetched: () => 'The record will be fetched again.',
  released: () => 'Released: what it was about is asked of the API.',
  resolved: () => 'The gap is resolved.',
  approved: (done) =>
    `${count(done, 'deletion')} approved, for one hour. A full sync proves them once more first.`,
};
