import type { Budget, Lane } from '../../src/compliance/budget.ts';
import type {
  CallOptions,
  ComplianceClient,
  Page,
  RecordAnswer,
  Timing,
} from '../../src/compliance/client.ts';
import { MalformedAnswer, recordIn } from '../../src/compliance/envelope.ts';
import { UpstreamError, type UpstreamErrorKind } from '../../src/compliance/errors.ts';
import type { Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import type { Clock } from '../../src/platform/clock.ts';
import type { Model } from './model.ts';
import type { Fault, Settings } from './plan.ts';
import type { Chance } from './random.ts';
import { POINTERS } from './stages.ts';
import type { World } from './time.ts';

/** Lanes as draws name them: another name, another history. */
const LANE_LABELS: Readonly<Record<Lane, string>> = { live: 'live', scan: 'walk', person: 'person' };

const kindOf = (name: string) => name.slice(0, name.indexOf(' '));

/** Which faults last at this moment. Shared by all lives of the mirror. */
export interface Weather {
  active: Set<Fault>;
  /** Kinds of which nothing newer than `at` is shown by their lists, or by all their addresses. */
  laggingSince: Map<string, { at: number; of: 'list' | 'all' }>;
  /** False: every request succeeds, and shows what is true now. */
  rough: boolean;
}

const RETRY_AFTER_MS = 2_000;

/** Of an answer that nobody understands. */
const GARBLED: ReadonlySet<UpstreamErrorKind> = new Set(['malformed', 'partial', 'failed']);

/**
 * The service's read side, answering from the model: each answer shows one moment of the past, at most SETTLE before
 * it was served, and some fail.
 */
export function createUpstreamClient(options: {
  world: World;
  model: Model;
  chance: Chance;
  settings: Settings;
  weather: Weather;
  clock: Clock;
  budget: Budget;
  trace: (line: string) => void;
  onPage: (kind: 'policy' | 'vendor', page: number) => void;
  /** A page or a record was shown, a record is not there, or nobody can tell what the answer says; `id`: of one record. */
  onAnswer: (kind: Kind, id: string | null, says: 'shown' | 'missing' | 'garbled') => void;
}): ComplianceClient {
  const { world, model, chance, settings, weather, clock, budget } = options;
  const moment = () => ({ steady: clock.steady(), wall: clock.wall() });

  async function exchange<T>(
    name: string,
    call: CallOptions,
    answer: (shownAt: number) => T,
  ): Promise<T & Timing> {
    const { began, agedMs, shownAt, result, failure } = await budget.run(call.lane, call.signal, async () => {
      await call.onSend?.();
      call.signal.throwIfAborted();
      const began = moment();
      const latency = latencyOf(name);
      const servedAfter = Math.floor(latency * chance.draw(`served ${name}`));
      let result: T | UpstreamError;
      await clock.sleep(servedAfter, call.signal);
      const agedMs = ageOf(name);
      const fresh = world.now() - agedMs - stalenessOf(name);
      const lag = weather.laggingSince.get(kindOf(name));
      const isLagging = lag !== undefined && (lag.of === 'all' || / page \d+$/.test(name));
      const shownAt = isLagging ? Math.min(fresh, lag.at) : fresh;
      try {
        result = answer(shownAt);
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error;
        result = error;
      }
      const failure = failureOf(name, call.lane);
      const slow = result instanceof UpstreamError ? 1 : Math.max(1, latency - servedAfter);
      await clock.sleep(failure?.message.startsWith('timeout') ? settings.timeoutMs : slow, call.signal);
      return { began, agedMs, shownAt, result, failure };
    });
    if (call.signal.aborted) throw call.signal.reason;
    const outcome = failure ?? result;
    if (outcome instanceof UpstreamError) {
      if (outcome.retryAfterMs !== null) budget.pauseUntil(clock.steady() + outcome.retryAfterMs);
      options.trace(`GET ${name} fails: ${outcome.kind}`);
      throw outcome;
    }
    options.trace(`GET ${name} shows ${shownAt}`);
    const ended = moment();
    const ago = ({ wall, steady }: typeof ended) => ({ wall: wall - agedMs, steady: steady - agedMs });
    return { ...outcome, began: ago(began), ended: ago(ended), agedMs };
  }

  function latencyOf(name: string): number {
    if (!weather.rough) return 5;
    const tail = chance.happens(`tail ${name}`, 0.1);
    return (
      1 + Math.floor(chance.draw(`latency ${name}`) * (tail ? settings.longestLatencyMs : settings.latencyMs))
    );
  }

  /** As stale as it may be, as fresh as can be, or something between. */
  function stalenessOf(name: string): number {
    const draw = chance.draw(`stale ${name}`);
    if (!weather.rough || draw < 0.4) return 0;
    if (draw < 0.7) return settings.settleMs;
    return Math.floor(chance.draw(`staleness ${name}`) * settings.settleMs);
  }

  /** How old the answer of a cache is. */
  function ageOf(name: string): number {
    if (!weather.rough || settings.cacheMs === 0 || !chance.happens(`cached ${name}`, 0.4)) return 0;
    return Math.floor(chance.draw(`age ${name}`) * settings.cacheMs);
  }

  function failureOf(name: string, lane: Lane): UpstreamError | null {
    for (const { fault } of weather.active) {
      if (fault === 'outage') {
        return failed(chance.pick(`outage ${name}`, ['503', 'network', 'timeout', '503']));
      }
      if (fault === 'unauthorized') return failed('unauthorized');
      if (fault === 'forbidden') return failed('forbidden');
      if (fault === 'rate_limited') return failed('rate_limited', RETRY_AFTER_MS);
    }
    if (!weather.rough || !chance.happens(`error ${name} ${LANE_LABELS[lane]}`, settings.errorRate))
      return null;
    const kind = chance.pick(`error ${name}`, [
      ...(['server', 'network', 'timeout', 'malformed', 'rate_limited'] as const),
      ...(settings.saysFailure ? (['partial', 'failed'] as const) : []),
    ]);
    return kind === 'rate_limited' ? failed(kind, RETRY_AFTER_MS) : failed(kind);
  }

  const faultOn = (kind: Kind) =>
    [...weather.active].find((active) => 'kind' in active && active.kind === kind)?.fault ?? null;
  const pathIsLost = () => [...weather.active].some((active) => active.fault === 'lost_path');

  function pageOf(kind: 'policy' | 'vendor', page: number, shownAt: number): Omit<Page, keyof Timing> {
    const fault = faultOn(kind);
    if (pathIsLost()) throw failed('unexpected_status');
    if (fault === 'malformed' && page > 1) throw failed('malformed');
    if (fault === 'partial' || fault === 'failed') throw failed(fault);
    const all = fault === 'forgetful' ? [] : model.list(kind, shownAt);
    const { pageSize } = settings;
    const at = fault === 'page_ignored' ? 0 : (page - 1) * pageSize;
    const kept = fault === 'truncated' ? all.slice(0, Math.max(0, all.length - 2)) : all;
    const objects = kept.slice(at, at + pageSize);
    if (fault === 'gappy' && page === 1) objects.pop();
    // A list that is cut short and says nothing of its length could not be told from a short one.
    const saysTotal = settings.givesTotal || (fault !== null && fault !== 'forgetful');
    const total = all.length + (fault === 'total_wrong' ? 1 : 0);
    const meta = { page, perPage: pageSize, ...(saysTotal ? { total } : {}) };
    return { objects, meta, unusable: new Map(), next: null };
  }

  /** As the real client reads it, and now and then it is about no record at all, with a status that says all is well. */
  function readAs(kind: Kind, id: string, object: JsonObject): JsonObject {
    const isBusy = weather.rough && chance.happens(`busy ${kind} ${id}`, settings.errorRate / 2);
    try {
      return recordIn({ data: isBusy ? { message: 'busy' } : object }, kind, id, POINTERS);
    } catch (error) {
      if (error instanceof MalformedAnswer) throw failed('malformed');
      throw error;
    }
  }

  async function told<Answer extends Page | RecordAnswer>(
    kind: Kind,
    id: string | null,
    answer: Promise<Answer>,
  ): Promise<Answer> {
    try {
      const seen = await answer;
      options.onAnswer(kind, id, 'outcome' in seen && seen.outcome === 'missing' ? 'missing' : 'shown');
      return seen;
    } catch (error) {
      if (error instanceof UpstreamError && GARBLED.has(error.kind)) options.onAnswer(kind, id, 'garbled');
      throw error;
    }
  }

  const refuse = () => Promise.reject(new Error('the simulated mirror only reads'));
  return {
    listPage: (kind, page, call) => {
      options.onPage(kind, page);
      return told(
        kind,
        null,
        exchange(`${kind} page ${page}`, call, (shownAt) => pageOf(kind, page, shownAt)),
      );
    },
    getRecord: (kind, id, call) =>
      told(
        kind,
        id,
        exchange(`${kind} ${id}`, call, (shownAt) => {
          const fault = faultOn(kind);
          if (fault === 'partial' || fault === 'failed') throw failed(fault);
          const gone = pathIsLost() || fault === 'forgetful' || fault === 'lost_records';
          const object = gone ? null : model.shown(kind, id, shownAt);
          if (object === null) return { outcome: 'missing' } as RecordAnswer;
          return { outcome: 'found', object: readAs(kind, id, object) } as RecordAnswer;
        }),
      ),
    registerWebhook: refuse,
    request: refuse,
  };
}

type Failure = UpstreamErrorKind | '503' | 'network' | 'timeout';

function failed(what: Failure, retryAfterMs: number | null = null) {
  const kind = what === '503' || what === 'network' || what === 'timeout' ? 'unreachable' : what;
  return new UpstreamError(kind, `${what}, as the simulation will have it`, { retryAfterMs });
}
