import { expect, it } from 'vitest';
import { unreachableSince } from '../../src/backfill/health.ts';
import { createUpstream, lookEveryMs } from '../../src/backfill/upstream.ts';
import type { CallOptions, ComplianceClient } from '../../src/compliance/client.ts';
import { UpstreamError, type UpstreamErrorKind } from '../../src/compliance/errors.ts';
import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import type { Clock } from '../../src/platform/clock.ts';
import { HeldClock } from '../compliance/held-clock.ts';

/** All but the client: nothing is stored, and no time passes. */
const STILL = {
  paging: { pageParam: 'page', perPageParam: 'perPage', firstPage: 1, pageSize: 100 },
  store: {
    numberAt: async () => 0,
    currentNumber: async () => 1,
    openProblem: async () => undefined,
    endProblem: async () => true,
    audit: async () => 0,
  },
  clock: { wall: () => 0, steady: () => 0, sleep: async () => undefined },
  random: () => 0,
  signal: new AbortController().signal,
};

const silent = () => new UpstreamError('unreachable', 'refused the connection');
const refusing = () => new UpstreamError('unauthorized', 'answered 401');
const unreadable = () => new UpstreamError('unexpected_status', 'answered 404');
const signedOut = () => new UpstreamError('no_credentials', 'nobody has signed in');

/** Reads of every kind, one after the other, and what they open; time passes only while a read waits, and when told to. */
function reader({ listsAnswer = false, policiesFail = false } = {}) {
  let now = 1_000_000;
  let wallAhead = 0;
  const stop = new AbortController();
  let failure = silent;
  const opened: string[] = [];
  const audited: string[] = [];
  const alsoAsked: Kind[] = [];
  let canSave = true;
  const fails = async () => {
    throw failure();
  };
  const lists = async (kind: Kind) => {
    if (!listsAnswer || (policiesFail && kind === 'policy')) throw failure();
    const moment = { steady: now, wall: now };
    return { objects: [], meta: {}, began: moment, ended: moment };
  };
  const upstream = createUpstream({
    client: { listPage: lists, getRecord: fails } as unknown as ComplianceClient,
    paging: { pageParam: 'page', perPageParam: 'perPage', firstPage: 1, pageSize: 100 },
    store: {
      numberAt: async () => 0,
      currentNumber: async () => 1,
      openProblem: async ({ reason }) => void opened.push(reason),
      endProblem: async () => {
        if (!canSave) throw new Error('the disk is full');
        return true;
      },
      audit: async ({ outcome }) => audited.push(outcome),
    },
    clock: {
      wall: () => now + wallAhead,
      steady: () => now,
      sleep: async (ms) => {
        now += ms;
      },
    } satisfies Clock,
    random: () => 0,
    signal: stop.signal,
    onUnauthorized: (others) => void alsoAsked.push(...others),
  });
  const read = async (kind: Kind) =>
    kind === 'risk_assessment'
      ? await upstream.record(kind, 'r1', 'live')
      : await upstream.page(kind, 1, 'live');
  return {
    /** For at least so long, each kind at least once. */
    async fail(ms: number, how: () => UpstreamError, kinds: readonly Kind[] = KINDS): Promise<string[]> {
      failure = how;
      opened.length = 0;
      const until = now + ms;
      do {
        for (const kind of kinds) await expect(read(kind)).rejects.toThrow();
        now += 1_000;
      } while (now < until);
      return opened.filter((reason) => reason === 'unreachable');
    },
    /** Seconds in which nothing is to be read. */
    async idle(seconds: number): Promise<void> {
      for (const until = now + seconds * 1_000; now < until; now += 1_000)
        if (upstream.isLookDue(6_000)) await upstream.look();
    },
    /** For how long a read waits before it is sent, or fails. */
    async waits(kind: Kind): Promise<number> {
      const from = now;
      await read(kind).catch(() => undefined);
      return now - from;
    },
    /** Without time passing. */
    async failTimes(times: number): Promise<void> {
      for (let n = 0; n < times; n += 1) await read('vendor').catch(() => undefined);
    },
    /** Each time after a good answer. */
    async failNowAndThen(times: number): Promise<void> {
      for (let n = 0; n < times; n += 1) {
        listsAnswer = true;
        await read('vendor');
        listsAnswer = false;
        await read('vendor').catch(() => undefined);
      }
    },
    /** Seconds in which nothing is asked. */
    pass: (seconds: number) => {
      now += seconds * 1_000;
    },
    /** What a good answer opens. */
    async answer(): Promise<string[]> {
      opened.length = 0;
      listsAnswer = true;
      await read('vendor');
      return [...opened];
    },
    failPolicies: (fails: boolean) => {
      policiesFail = fails;
    },
    stop: () => stop.abort(),
    saves: (can: boolean) => {
      canSave = can;
    },
    setBack: (ms: number) => {
      wallAhead -= ms;
    },
    isLookDue: () => upstream.isLookDue(6_000),
    unreachableSince: () => unreachableSince(upstream.health(), now),
    silentSince: () => upstream.health().silentSince?.wall ?? null,
    audited,
    alsoAsked,
  };
}

it.each([
  ['nothing has been asked yet', null, null],
  ['one request has just failed', 4_999, null],
  ['nothing has been answered for longer than that', 5_000, 'since'],
])('%s: unreachable since', (_, silentMs, since) => {
  const silentSince = silentMs === null ? null : { wall: 7_000, steady: 100_000 - silentMs };
  const found = unreachableSince({ silentSince }, 100_000);
  expect(found).toBe(since === null ? null : 7_000);
});

it('silence counts from when the first unanswered request left, and ends with a refusal, but not for lack of credentials', async () => {
  const { fail, silentSince } = reader();
  await fail(3_000, silent);
  await fail(1_000, signedOut);
  expect(silentSince()).toBe(1_000_000);
  await fail(1_000, refusing);
  expect(silentSince()).toBeNull();
});

it('a second 401 about one kind has those asked for that were readable with the same credentials, once each time', async () => {
  const { fail, waits, alsoAsked, failPolicies } = reader({ listsAnswer: true, policiesFail: true });
  await waits('vendor');
  await fail(1_000, refusing, ['policy']);
  expect(alsoAsked).toEqual([]);
  await fail(3_000, refusing, ['policy']);
  expect(alsoAsked).toEqual(['vendor']);
  failPolicies(false);
  await waits('policy');
  failPolicies(true);
  await fail(4_000, refusing, ['policy']);
  expect(alsoAsked).toEqual(['vendor', 'vendor']);
});

it('a read that begins after the stop does not wait for the end of a pause', async () => {
  const { fail, stop, waits } = reader();
  await fail(20_000, silent);
  stop();
  expect(await waits('vendor')).toBe(0);
});

it('a wall clock that is set back does not hide that the service is unreachable', async () => {
  const { fail, setBack, unreachableSince } = reader();
  await fail(6_000, silent);
  setBack(3_600_000);
  expect(unreachableSince()).toBe(1_000_000);
});

it('credentials that are rejected, or were never tried, are not tried every few seconds by looks', async () => {
  const { fail, pass, isLookDue } = reader();
  pass(60);
  expect(isLookDue()).toBe(false);
  await fail(0, refusing);
  pass(60);
  expect(isLookDue()).toBe(false);
  await fail(0, silent);
  expect(isLookDue()).toBe(true);
});

it('requests that fail now and then, among good ones, make no other wait', async () => {
  const { failNowAndThen, waits } = reader();
  await failNowAndThen(9);
  expect(await waits('vendor')).toBe(0);
});

it('a service that limits us, and says for how long, has not failed, unless it does nothing else for five minutes', async () => {
  const { fail, waits, silentSince } = reader();
  const limited = () => new UpstreamError('rate_limited', 'answered 429', { retryAfterMs: 1_000 });
  await fail(10_000, limited, ['vendor']);
  expect(await waits('vendor')).toBe(0);
  expect(silentSince()).toBeNull();
  await fail(300_000, limited, ['vendor']);
  expect(silentSince()).not.toBeNull();
});

it('that the credentials are accepted again is noted with the next read where the database could not take it', async () => {
  const { fail, answer, audited, saves } = reader();
  await fail(0, refusing, ['vendor']);
  saves(false);
  await expect(answer()).rejects.toThrow('the disk is full');
  saves(true);
  await answer();
  expect(audited).toEqual(['unauthorized', 'accepted']);
});

it('a service that refuses the credentials answers: neither is it away, nor was it so meanwhile', async () => {
  const { fail } = reader();
  expect(await fail(120_000, refusing, ['policy'])).toEqual([]);
  expect(await fail(0, silent, ['vendor'])).toEqual([]);
});

it('policies that cannot be read do not make vendors wait after a time in which nothing was to be read', async () => {
  const { fail, idle, waits } = reader({ listsAnswer: true, policiesFail: true });
  await fail(0, unreadable, ['policy']);
  await waits('vendor');
  await idle(600);
  expect(await waits('vendor')).toBe(0);
});

/** Reads of assessments of which each is answered without an id. `answers`: what the made-up id gets. */
function unnamedReader() {
  const state = {
    madeUp: (): object => ({ outcome: 'missing', isPage: false }),
    asked: [] as string[],
    canSend: true,
    number: 1,
  };
  const moment = { steady: 0, wall: 0 };
  let turn = Promise.resolve();
  const getRecord = async (_kind: Kind, id: string, { onSend }: CallOptions) => {
    // As the budget does it: one after the other.
    turn = turn.then(() => new Promise((next) => setTimeout(next, 1)));
    await turn;
    if (!state.canSend && !/^r\d$/.test(id)) throw signedOut();
    await onSend?.();
    // Something is written while the request is on its way.
    state.number += 1;
    state.asked.push(/^r\d$/.test(id) ? id : 'made up');
    const found = { outcome: 'found', object: { status: 'ok' }, isUnnamed: true };
    return { ...(/^r\d$/.test(id) ? found : state.madeUp()), began: moment, ended: moment };
  };
  const opened: string[] = [];
  const upstream = createUpstream({
    client: { getRecord } as unknown as ComplianceClient,
    ...STILL,
    store: {
      ...STILL.store,
      currentNumber: async () => state.number,
      openProblem: async ({ reason }) => void opened.push(reason),
    },
    clock: { ...STILL.clock, marginMs: () => 5 },
  });
  return { state, opened, upstream, read: (id = 'r1') => upstream.record('risk_assessment', id, 'live') };
}

it('an answer without an id is about no record where an id that nobody has made is answered alike', async () => {
  const { state, read } = unnamedReader();
  const found = { answer: { outcome: 'found', object: { status: 'ok' } } };
  expect(await read()).toMatchObject(found);
  state.madeUp = () => {
    throw new UpstreamError('malformed', 'the answer has no id, and a field `error`');
  };
  expect(await read()).toMatchObject(found);
  state.madeUp = () => ({ outcome: 'found', object: { status: 'ok' }, isUnnamed: true });
  await expect(read()).rejects.toMatchObject({ kind: 'malformed', message: expect.stringContaining('/r1') });
  state.madeUp = () => {
    throw new UpstreamError('unreachable', 'answered 503');
  };
  await expect(read()).rejects.toMatchObject({ kind: 'unreachable' });
});

it.each<[string, UpstreamErrorKind, number, number]>([
  ['fails', 'server', 4, 4],
  ['does not arrive', 'unreachable', 4, 4],
  ['cannot be understood', 'malformed', 1, 4],
  ['refuses the credentials', 'unauthorized', 1, 1],
  ['refuses the record', 'forbidden', 1, 1],
])(
  'where an answer %s, a read of a full sync is repeated, and one of the planner never',
  async (_, kind, ofList, ofRecord) => {
    let asked = 0;
    const fails = async (of: Kind) => {
      // A look at another list only asks whether the service answers at all.
      if (of === 'vendor') asked += 1;
      throw new UpstreamError(kind, 'no answer');
    };
    const upstream = createUpstream({
      client: { listPage: fails, getRecord: fails } as unknown as ComplianceClient,
      ...STILL,
    });
    const requestsOf = async (read: (tries: number) => Promise<unknown>, tries: number) => {
      asked = 0;
      await expect(read(tries)).rejects.toMatchObject({ kind });
      return asked;
    };
    const list = (tries: number) => upstream.page('vendor', 1, 'scan', { tries });
    let retries = 0;
    const record = (tries: number) =>
      upstream.record('vendor', 'a', 'scan', {
        tries,
        onRetry: async () => {
          retries += 1;
        },
      });
    expect(await requestsOf(list, 4)).toBe(ofList);
    expect(await requestsOf(record, 4)).toBe(ofRecord);
    expect(retries).toBe(ofRecord - 1);
    expect(await requestsOf(record, 1)).toBe(1);
  },
);

it('whether a service tells ids apart is asked again after a request that could not be sent', async () => {
  const { state, read } = unnamedReader();
  state.canSend = false;
  await expect(read()).rejects.toMatchObject({ kind: 'no_credentials' });
  state.canSend = true;
  expect(await read()).toMatchObject({ answer: { outcome: 'found' } });
});

it.each([403, 500])(
  'a service that answers an unknown id with %i may leave the ids out of its records',
  async (status) => {
    const { state, opened, upstream, read } = unnamedReader();
    state.madeUp = () => {
      throw new UpstreamError(status === 403 ? 'forbidden' : 'server', `answered ${status}`);
    };
    for (const id of ['r1', 'r2', 'r3', 'r4']) expect((await read(id)).answer.outcome).toBe('found');
    expect(opened).toEqual([]);
    expect(upstream.health()).toMatchObject({ ok: true, silentSince: null });
  },
);

it('a web page as the answer to an id that nobody has made is a fault only while no record is known, and a record always', async () => {
  const { state, opened, upstream } = unnamedReader();
  state.madeUp = () => ({ outcome: 'missing', isPage: true });
  await upstream.probe('risk_assessment', 'scan', 1);
  expect(opened).toEqual([]);
  await expect(upstream.probe('risk_assessment', 'scan', 0)).rejects.toThrow('with a web page');
  expect(opened).toEqual(['unreadable_answer']);
  state.madeUp = () => ({ outcome: 'found', object: { id: 'r0' } });
  await expect(upstream.probe('risk_assessment', 'scan', 1)).rejects.toThrow('an answer proves nothing');
});

it('an id that nobody has made is refused by the service, and not by a page of a proxy', async () => {
  const { state, upstream } = unnamedReader();
  let isPage = false;
  state.madeUp = () => {
    throw new UpstreamError('not_taken', 'answered 400', { isPage });
  };
  await upstream.probe('risk_assessment', 'scan', 0);
  isPage = true;
  await expect(upstream.probe('risk_assessment', 'scan', 0)).rejects.toThrow('answered 400');
});

it('a read counts from the number and the earliest moment of its request to the latest moment of its answer', async () => {
  const { read } = unnamedReader();
  expect((await read()).read).toMatchObject({ number: 1, beganAt: -5, endedAt: 5 });
});

it('a witness counts for a read if it had ended as that began, although others overlap with it', () => {
  const { upstream } = unnamedReader();
  upstream.noteWitness('vendor', { beganAt: 10, endedAt: 20 });
  upstream.noteWitness('vendor', { beganAt: 15, endedAt: 30 });
  const before = [19, 20, 30].map((at) => upstream.witnessedAt('vendor', at));
  expect(before).toEqual([null, 10, 15]);
  expect(upstream.witnessedAt('risk_assessment', 30)).toBeNull();
  for (let n = 0; n < 4; n += 1) upstream.noteWitness('vendor', { beganAt: 18, endedAt: 40 });
  expect(upstream.witnessedAt('vendor', 20)).toBe(10);
});

it('a 403 is about the credentials only if each record that was asked for got one', async () => {
  const { state, opened, upstream, read } = unnamedReader();
  await read();
  const forbidden = new UpstreamError('forbidden', 'answered 403');
  state.madeUp = () => {
    throw forbidden;
  };
  await expect(read('other')).rejects.toThrow(forbidden);
  await upstream.noteForbidden('risk_assessment', forbidden, 2);
  expect(opened).toEqual([]);
  await upstream.noteForbidden('risk_assessment', forbidden, 1);
  expect(opened).toEqual(['credentials_rejected']);
});

/** Looks at an idle API. `answerTo`: the error for a page with this query; null: it is answered with a page. */
function looker() {
  const state = { answerTo: (_query: unknown): UpstreamError | null => null, asked: 0 };
  const moment = { steady: 0, wall: 0 };
  const listPage = async (_kind: Kind, _page: number, { query }: { query?: unknown }) => {
    state.asked += 1;
    const error = state.answerTo(query);
    if (error !== null) throw error;
    return { objects: [], meta: {}, began: moment, ended: moment };
  };
  const upstream = createUpstream({
    client: { listPage } as unknown as ComplianceClient,
    ...STILL,
  });
  const looks = async () => [await upstream.look(), await upstream.look(), await upstream.look()];
  return { state, looks };
}

it('a look whose answer nobody can use leads to a full sync of the kind once, and of assessments once neither list can be used, and again after a good answer', async () => {
  const { state, looks } = looker();
  expect(await looks()).toEqual([[], [], []]);
  const unusable = () => new UpstreamError('malformed', 'the answer is not JSON');
  state.answerTo = unusable;
  // While the policies' list fails, the vendors' is looked at.
  expect(await looks()).toEqual([['policy'], ['vendor', 'risk_assessment'], []]);
  state.answerTo = () => null;
  expect(await looks()).toEqual([[], [], []]);
  state.answerTo = unusable;
  expect(await looks()).toEqual([['policy', 'risk_assessment'], [], []]);
});

it.each([
  ['with 400', new UpstreamError('not_taken', 'answered 400')],
  ['with 404', new UpstreamError('unexpected_status', 'answered 404')],
  ['with the row alone', new UpstreamError('malformed', '`data` is a single record')],
])('an idle service that answers a page of one row %s is looked at with whole pages', async (_, error) => {
  const { state, looks } = looker();
  state.answerTo = (query) => (query === undefined ? null : error);
  expect(await looks()).toEqual([[], [], []]);
  expect(state.asked).toBe(4);
});

it.each<[string, () => Promise<never>]>([
  ['fails each request', () => Promise.reject(silent())],
  ['answers nothing', () => new Promise<never>(() => undefined)],
])('an idle API that %s, from just after a look, is told to be unreachable within 15 s', async (_, fails) => {
  const clock = new HeldClock();
  let falls = false;
  let told = false;
  const listPage = async (_kind: Kind, _page: number, { onSend }: CallOptions) => {
    await onSend?.();
    if (falls) await fails();
    const moment = { steady: clock.steady(), wall: clock.wall() };
    return { objects: [], meta: {}, began: moment, ended: moment };
  };
  const upstream = createUpstream({
    client: { listPage } as unknown as ComplianceClient,
    ...STILL,
    clock,
    random: () => 1,
    onReachability: () => {
      told = unreachableSince(upstream.health(), clock.steady()) !== null;
    },
  });
  await upstream.page('policy', 1, 'scan');
  falls = true;
  const from = clock.steady();
  while (!told && clock.steady() - from < 60_000) {
    if (upstream.isLookDue(lookEveryMs(60))) void upstream.look();
    await clock.advance(1_000);
  }
  // The rest is for a heartbeat.
  expect(clock.steady() - from).toBeLessThanOrEqual(12_000);
});

it('the API is looked at every six seconds while there is nothing to read, with no more than a sixth of a small budget', () => {
  expect([600, 60, 6].map(lookEveryMs)).toEqual([6_000, 6_000, 60_000]);
});
