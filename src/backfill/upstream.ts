import type { Lane } from '../compliance/budget.ts';
import type {
  CallOptions,
  ComplianceClient,
  Page,
  PageCallOptions,
  RecordAnswer,
} from '../compliance/client.ts';
import { OtherRecordAnswered } from '../compliance/envelope.ts';
import { isRefusal, isUnreadable, UpstreamError } from '../compliance/errors.ts';
import type { FetchedKind, Kind, ListedKind } from '../compliance/kinds.ts';
import { firstPageOf } from '../compliance/paging.ts';
import { backoffMs, type Moment, momentOf } from '../platform/clock.ts';
import { describeError } from '../platform/errors.ts';
import type { ReadMoment, Verbs } from '../store/store.ts';
import { type AccessWatch, createAccess } from './access.ts';
import { type Context, READ_BACKOFF, readMoment } from './context.ts';
import { createHealth, type HealthWatch, UNREACHABLE_AFTER_MS } from './health.ts';
import { createMadeUpId } from './made-up-id.ts';

/** Failing addresses to remember. If there are more, it is an outage, and they need not be told apart. */
const FAILING_KEPT = 1_000;

/**
 * While there is nothing to read, one request in this time shows whether the API still answers. Silence must be reported within
 * 15 s, and is reported UNREACHABLE_AFTER_MS after the first request without an answer.
 */
const LOOK_EVERY_MS = 6_000;
/** The largest part of the request budget for this. */
const LOOKS_SHARE = 1 / 6;

export const lookEveryMs = (requestsPerMinute: number): number =>
  Math.max(LOOK_EVERY_MS, 60_000 / (requestsPerMinute * LOOKS_SHARE));

interface Seen<T> {
  answer: T;
  read: ReadMoment;
}

/** How a read is made, besides what it asks for. */
interface ReadHow {
  /** How often at most, while nobody knows that the next answer will be no better. */
  tries?: number;
  /** Called with each failure after which it is tried again, before the wait. */
  onRetry?: (error: UpstreamError) => Promise<void>;
  /** Nobody waits for it any more: no other try. */
  isWanted?: () => boolean;
  /** Errors that count as an answer, and not as a failure. */
  isAnswer?: ((error: UpstreamError) => boolean) | undefined;
}

/** A list that is answered with what nobody understands is read again by the next full sync, and a record's address by this one. */
const isWorthATry = (error: unknown, address: string | null): error is UpstreamError =>
  error instanceof UpstreamError && (error.retryable || (address !== null && !isRefusal(error)));

/** For so long a number of the counter is taken for the present one. Far less than any read delay. */
const RECENT_MS = 50;

/** Another record, or a status that rejects the id. */
const isAboutId = ({ kind, cause }: UpstreamError) =>
  kind === 'not_taken' || kind === 'unexpected_status' || cause instanceof OtherRecordAnswered;

export type Upstream = ReturnType<typeof createUpstream>;

/** Reads the upstream. Notes the moment of each read, and what each answer says about the service's health and our credentials. */
export function createUpstream(
  options: Pick<Context, 'clock' | 'paging' | 'random' | 'signal'> & {
    client: ComplianceClient;
    store: Pick<Verbs, 'currentNumber' | 'numberAt' | 'openProblem' | 'endProblem' | 'audit'>;
    /** The kind can be read with the present credentials: a record was `read`, or the `absence` of one was shown. */
    onReadable?: (kind: Kind, how: 'read' | 'absence') => Promise<void>;
  } & AccessWatch &
    HealthWatch,
) {
  const { client, store, clock, signal } = options;
  const now = () => momentOf(clock);
  const health = createHealth(options);
  /** Addresses whose last answer was not useful. */
  const failing = new Set<string>();
  const addressOf = (kind: Kind, id: string | null) => `${kind} ${id ?? ''}`;
  /** Requests on their way, and when the last one ended. */
  let asking = 0;
  let lastAskedAt = clock.steady();
  /** Looks ask for a page of one row. */
  let looksAtOne = true;
  let recent = { number: 0, at: Number.NEGATIVE_INFINITY };
  /** Kinds whose last look got an answer that nobody can use. */
  const unusableLooks = new Set<Kind>();
  /** How long the last answer with the list of a kind took. */
  const listTookMs = new Map<Kind, number>();

  const access = createAccess(options);
  const madeUpId = createMadeUpId({ ...options, ask: readRecord, noteForbidden: access.noteForbidden });

  interface Asked {
    lane: Lane;
    /** The record's id; null: the kind's list. */
    address: string | null;
    /** The last answer from this address was not a failure. */
    isNew: boolean;
    isAnswer?: ReadHow['isAnswer'];
  }
  type Ask<T> = (call: CallOptions & { onSend: () => Promise<void> }) => Promise<T>;

  /** Every read, and the only place where one is tried again. A refetch of the planner is one try, since its row is due again. */
  async function read<T extends RecordAnswer | Page>(
    kind: Kind,
    address: string | null,
    lane: Lane,
    ask: Ask<T>,
    how: ReadHow = {},
  ): Promise<Seen<T>> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await readOnce(kind, { lane, address, isAnswer: how.isAnswer }, ask);
      } catch (error) {
        if (tries >= (how.tries ?? 1) || !isWorthATry(error, address)) throw error;
        await how.onRetry?.(error);
        await clock.sleep(backoffMs(READ_BACKOFF, tries, options.random()), signal);
        signal.throwIfAborted();
        if (how.isWanted?.() === false) throw error;
      }
    }
  }

  async function readOnce<T extends RecordAnswer | Page>(
    kind: Kind,
    { lane, address, isAnswer }: Omit<Asked, 'isNew'>,
    ask: Ask<T>,
  ): Promise<Seen<T>> {
    const asked = addressOf(kind, address);
    asking += 1;
    try {
      await health.pause();
      const seen = await readNow(kind, ask, { lane, address, isNew: !failing.has(asked), isAnswer });
      failing.delete(asked);
      return seen;
    } catch (error) {
      const isSilent = health.isSilent();
      // What is no JSON is no answer of this service, unless another address still has one.
      const isPage =
        !isSilent && address !== null && error instanceof UpstreamError && error.kind === 'no_json';
      if (isPage || (isSilent && failing.has(asked))) await lookElsewhere(kind, lane);
      if (failing.size >= FAILING_KEPT) failing.clear();
      failing.add(asked);
      throw error;
    } finally {
      asking -= 1;
      lastAskedAt = clock.steady();
    }
  }

  /** Asks another address: only if that fails too, the service counts as failing. */
  async function lookElsewhere(kind: Kind, lane: Lane): Promise<void> {
    const other = kind === 'policy' ? 'vendor' : 'policy';
    const page = firstPageOf(options.paging);
    try {
      const asked = { lane, address: null, isNew: true };
      await readNow(other, (call) => client.listPage(other, page, call), asked);
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
    }
  }

  async function readNow<T extends RecordAnswer | Page>(
    kind: Kind,
    ask: Ask<T>,
    asked: Asked,
  ): Promise<Seen<T>> {
    signal.throwIfAborted();
    let number = 0;
    let sent = now();
    async function onSend(): Promise<void> {
      sent = now();
      number = await recentNumber();
    }
    try {
      const answer = await ask({ lane: asked.lane, signal, onSend });
      health.succeeded();
      await access.noteAccepted(kind);
      const { began, ended, agedMs = 0 } = answer;
      if (asked.address === null) listTookMs.set(kind, ended.steady - began.steady);
      if (agedMs > 0) number = Math.min(number, await store.numberAt(began.wall));
      return { answer, read: readMoment(clock, number, began, ended) };
    } catch (error) {
      if (!signal.aborted && error instanceof UpstreamError && !asked.isAnswer?.(error))
        await noteFailure(kind, error, sent, asked);
      throw error;
    }
  }

  /**
   * The counter, as it is or was a moment ago: a read with an earlier number counts as begun earlier. So a page need not wait until the
   * database has saved the page before it.
   */
  async function recentNumber(): Promise<number> {
    const { number, at } = recent;
    const asked = clock.steady();
    const current = store.currentNumber().then((read) => {
      recent = { number: read, at: asked };
      return read;
    });
    if (asked - at > RECENT_MS) return await current;
    current.catch(() => undefined);
    return number;
  }

  async function noteFailure(
    kind: Kind,
    error: UpstreamError,
    sent: Moment,
    { address, isNew }: Asked,
  ): Promise<void> {
    health.saying(describeError(error));
    const isOfRecord = error.kind === 'forbidden' && address !== null;
    if (isOfRecord && (await access.noteRefusedRecord(kind, address, isNew ? error : null)))
      return health.answered();
    if (error.kind === 'rate_limited' && health.limited(sent, error.retryAfterMs ?? 0)) return;
    // The problem about an unusable answer is opened by the caller.
    const isUnusable = isUnreadable(error) && !(error.kind === 'no_json' && address === null);
    health.failed(isUnusable);
    if (isUnusable) return;
    if (!isRefusal(error)) return health.silentFrom(sent);
    if (error.kind !== 'no_credentials') health.answered();
    await access.noteRejected(kind, error);
  }

  /**
   * Asks for one policy, or for one vendor if the list of policies fails, only to see whether the service answers. When the answer
   * takes UNREACHABLE_AFTER_MS longer than the last one with this list, the service counts as silent until it answers. Returns the
   * kinds whose full syncs show what the answer means: the one asked for if the request was refused, or the first time that nobody can use
   * its answer; and assessments too once neither list can be used.
   */
  async function look(): Promise<readonly Kind[]> {
    const listFails = (kind: ListedKind) => failing.has(addressOf(kind, null));
    const kind = listFails('policy') && !listFails('vendor') ? 'vendor' : 'policy';
    const page = firstPageOf(options.paging);
    const { pageParam, perPageParam } = options.paging;
    const query = looksAtOne ? { [pageParam]: String(page), [perPageParam]: '1' } : undefined;
    const ended = new AbortController();
    try {
      await read(kind, null, 'scan', (call) => {
        const onSend = async () => {
          await call.onSend();
          const sent = now();
          const { lastOkWall } = health.now();
          const patienceMs = UNREACHABLE_AFTER_MS + (listTookMs.get(kind) ?? 0);
          void clock.sleep(patienceMs, ended.signal).then(() => {
            const isAnswering = health.now().lastOkWall !== lastOkWall;
            if (!ended.signal.aborted && !isAnswering) health.silentFrom(sent);
          });
        };
        return client.listPage(kind, page, { ...call, onSend, query });
      });
      unusableLooks.delete(kind);
      return [];
    } catch (error) {
      if (!(error instanceof UpstreamError)) {
        if (!signal.aborted) throw error;
        return [];
      }
      const isUnusable = isUnreadable(error) && error.kind !== 'no_json';
      if (looksAtOne && isUnusable) {
        // Some services have a smallest page, or show a single row in another form.
        looksAtOne = false;
        failing.delete(addressOf(kind, null));
        return await look();
      }
      const isNew = isUnusable && !unusableLooks.has(kind);
      if (!isNew) return isRefusal(error) ? [kind] : [];
      unusableLooks.add(kind);
      return unusableLooks.size === 1 ? [kind] : [kind, 'risk_assessment'];
    } finally {
      ended.abort(null);
    }
  }

  function readRecord(kind: FetchedKind, id: string, lane: Lane, how?: ReadHow) {
    return read<RecordAnswer>(kind, id, lane, (call) => client.getRecord(kind, id, call), how);
  }

  async function recordAt(...[kind, id, lane, how]: Parameters<typeof readRecord>) {
    const seen = await readRecord(kind, id, lane, how);
    if (seen.answer.outcome === 'found') {
      if (seen.answer.isUnnamed) await madeUpId.checkTellsApart(kind, id, lane, how?.tries);
      await options.onReadable?.(kind, 'read');
    }
    return seen;
  }

  return {
    /**
     * One page of a list. `isBehindLast`: as many records as the list's total were seen, so a refusal or a failure counts as the empty page
     * that ends it.
     */
    async page(
      kind: ListedKind,
      page: number,
      lane: Lane,
      { isBehindLast, query, ...how }: Pick<PageCallOptions, 'isBehindLast' | 'query'> & ReadHow = {},
    ): Promise<Seen<Page>> {
      const asked = { query, ...(isBehindLast === undefined ? {} : { isBehindLast }) };
      const ask = (call: CallOptions) => client.listPage(kind, page, { ...call, ...asked });
      const seen = await read(kind, null, lane, ask, how);
      await options.onReadable?.(kind, 'read');
      return { ...seen, read: { ...seen.read, isOfList: true } };
    },
    record: recordAt,
    probe: madeUpId.probe,
    /**
     * Whether the API shows a record with this id. The text may be no id at all, so an answer that rejects it is no failure of the
     * service. Throws an UpstreamError of kind `malformed` if the answer cannot be understood.
     */
    async shows(kind: FetchedKind, id: string, lane: Lane): Promise<boolean> {
      try {
        return (await recordAt(kind, id, lane, { isAnswer: isUnreadable })).answer.outcome === 'found';
      } catch (error) {
        if (error instanceof UpstreamError && isAboutId(error)) return false;
        throw error;
      }
    },
    look,
    /** Whether no request was sent for `everyMs`, so that nobody would notice if the service stopped answering. */
    isLookDue(everyMs: number): boolean {
      const isSilent = health.isSilent();
      if (asking > 0 || (health.now().ok !== true && !isSilent)) return false;
      return clock.steady() - lastAskedAt >= (isSilent ? READ_BACKOFF.firstMs : everyMs);
    },
    health: health.now,
    /** Nobody can use the answer, and that is about what was asked for and not about the whole service. */
    isOwnFault: (error: unknown): error is UpstreamError =>
      error instanceof UpstreamError &&
      isUnreadable(error) &&
      !(error.kind === 'no_json' && health.isSilent()),
    isRejected: access.isRejected,
    noteForbidden: access.noteForbidden,
    /** Ends the wait after failures, because a person asks. */
    tryNow: health.endPause,
    noteWitness: access.noteWitness,
    witnessedAt: access.witnessedAt,
  };
}
