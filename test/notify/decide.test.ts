import { describe, expect, it } from 'vitest';
import {
  attempted,
  look,
  NOTHING_SENT,
  type NotifyState,
  topicOf,
  type Verdict,
} from '../../src/notify/decide.ts';

const verdict = (word: string, reason = word): Verdict => ({
  verdict: word,
  reason,
  sentence: '',
  remedy: null,
  since: null,
});
const IN_SYNC = verdict('in_sync');
const CATCHING_UP = verdict('catching_up', 'backlog');
const SILENT = verdict('unreachable', 'upstream_unreachable');
const BLOCKED = verdict('action_required', 'paused');

const SENT_IN_SYNC: NotifyState = { ...NOTHING_SENT, sent: 'in_sync' };

/** Looks once a second at what each second shows; every attempt succeeds. Returns what was told, and when. */
function told(seconds: readonly (readonly [number, Verdict])[], from: NotifyState = SENT_IN_SYNC): string[] {
  let state = from;
  const news: string[] = [];
  let second = 0;
  for (const [count, seen] of seconds) {
    for (let each = 0; each < count; each += 1, second += 1) {
      const next = look(state, seen, second * 1000);
      state = next.state;
      if (!next.isDue) continue;
      news.push(`${second}s ${state.topic}`);
      state = attempted(state, true, second * 1000, 0);
    }
  }
  return news;
}

describe('what is told', () => {
  it.each([
    ['nothing while all stays as it was', [[500, IN_SYNC]], []],
    [
      'nothing of catching up that is soon over',
      [
        [10, IN_SYNC],
        [50, CATCHING_UP],
        [90, IN_SYNC],
      ],
      [],
    ],
    [
      'catching up that lasts',
      [
        [10, IN_SYNC],
        [90, CATCHING_UP],
      ],
      ['70s catching_up'],
    ],
    [
      'and its end',
      [
        [90, CATCHING_UP],
        [90, IN_SYNC],
      ],
      ['60s catching_up', '93s in_sync'],
    ],
    [
      'trouble soon, and once',
      [
        [10, IN_SYNC],
        [900, BLOCKED],
      ],
      ['13s action_required:paused'],
    ],
    [
      'a silent upstream as soon as trouble',
      [
        [10, IN_SYNC],
        [90, SILENT],
      ],
      ['13s unreachable:upstream_unreachable'],
    ],
    [
      'a backlog that is late as soon as trouble, and not one that is merely there',
      [
        [10, IN_SYNC],
        [30, CATCHING_UP],
        [30, verdict('catching_up', 'backlog_late')],
      ],
      ['43s catching_up:backlog_late'],
    ],
    [
      'no trouble that is over at the next look',
      [
        [10, IN_SYNC],
        [2, BLOCKED],
        [50, IN_SYNC],
      ],
      [],
    ],
    [
      'one trouble after another, since each asks for another act',
      [
        [10, BLOCKED],
        [10, verdict('action_required', 'credentials_rejected')],
      ],
      ['3s action_required:paused', '13s action_required:credentials_rejected'],
    ],
    [
      'nothing of a start or a stop',
      [
        [90, verdict('catching_up', 'starting')],
        [90, verdict('catching_up', 'migrating')],
        [90, verdict('catching_up', 'draining')],
      ],
      [],
    ],
  ] as const)('is %s', (_, seconds, news) => {
    expect(told(seconds as unknown as [number, Verdict][])).toEqual(news);
  });

  it('is the first verdict of all', () => {
    expect(told([[9, IN_SYNC]], { ...NOTHING_SENT, sent: null })).toEqual(['3s in_sync']);
  });
});

describe('a failed attempt', () => {
  const failed = (times: number): NotifyState => {
    let state = look(SENT_IN_SYNC, BLOCKED, 0).state;
    for (let n = 0; n < times; n += 1) state = attempted(state, false, 0, 0.999);
    return state;
  };

  it('is made again later each time, up to five minutes', () => {
    const delays = [1, 2, 3, 4, 30].map((times) => Math.round(failed(times).nextAttemptAt / 1000));
    expect(delays).toEqual([1, 2, 4, 8, 300]);
  });

  it('waits for its time', () => {
    const state = failed(4);
    expect(look(state, BLOCKED, 7_000).isDue).toBe(false);
    expect(look(state, BLOCKED, 8_000).isDue).toBe(true);
  });

  it('is dropped for news that comes meanwhile, which waits for nothing of it', () => {
    const other = verdict('stale', 'silence');
    const superseded = look(failed(9), other, 10_000).state;
    expect(look(superseded, other, 13_000)).toMatchObject({ isDue: true, state: { topic: 'stale:silence' } });
    expect(attempted(superseded, false, 13_000, 0.999).nextAttemptAt).toBeLessThanOrEqual(14_000);
  });

  it('is dropped when all is as it was last told', () => {
    const state = look(failed(9), IN_SYNC, 10_000).state;
    expect(look(state, IN_SYNC, 900_000).isDue).toBe(false);
  });
});

it('two verdicts for one act are one topic', () => {
  expect(topicOf(verdict('catching_up', 'backlog'))).toBe(topicOf(verdict('catching_up', 'verifying')));
  expect(topicOf(verdict('in_sync'))).toBe(topicOf(verdict('in_sync', 'in_sync_but_unresolved')));
});
