import type { Lane } from '../compliance/budget.ts';
import {
  type CallOptions,
  COLLECTIONS,
  type ComplianceClient,
  type RecordAnswer,
  recordPath,
} from '../compliance/client.ts';
import {
  isNotTaken,
  isOwnFailure,
  isRefusal,
  isUnreadable,
  isWebPage,
  UpstreamError,
  unreadableText,
} from '../compliance/errors.ts';
import type { FetchedKind, Kind } from '../compliance/kinds.ts';
import { momentOf } from '../platform/clock.ts';
import { MirrorError } from '../platform/errors.ts';
import type { RepairStore } from '../store/store.ts';
import type { Context } from './context.ts';

/** No service gives its records such an id. */
const MADE_UP_ID = 'compliance-mirror-asks-whether-it-may-read';

/** The service rejects the form of the made-up id, because its ids are numbers or UUIDs. So our credentials were accepted. */
const refusesTheId = (error: UpstreamError) => isNotTaken(error) && !isWebPage(error);

/**
 * The service tells the made-up id from the id of a record, in its own way: some hide what they do not have behind a 403, and some
 * fail at an id that has not their form.
 */
const isAboutMadeUpId = (error: UpstreamError) =>
  isUnreadable(error) || error.kind === 'forbidden' || isOwnFailure(error);

/** Asks for an id that nobody has made: what the service answers to it shows what its other answers mean. */
export function createMadeUpId(
  options: Pick<Context, 'clock' | 'signal'> & {
    client: ComplianceClient;
    store: Pick<RepairStore, 'openProblem'>;
    /** Sends what `ask` does. `isAnswer`: errors that are no failure of the service. */
    read: (
      kind: FetchedKind,
      id: string,
      lane: Lane,
      ask: (call: CallOptions & { onSend: () => Promise<void> }) => Promise<RecordAnswer>,
      isAnswer?: (error: UpstreamError) => boolean,
    ) => Promise<{ answer: RecordAnswer }>;
    noteForbidden: (kind: Kind, error: UpstreamError, records: number) => Promise<void>;
    onReadable?: (kind: Kind, how: 'absence') => Promise<void>;
  },
) {
  const { client, store, read, noteForbidden, onReadable, clock, signal } = options;
  /** Checks with the made-up id that wait for the budget. All answers that come before one is sent share it. */
  const unsentChecks = new Map<string, Promise<boolean>>();

  /**
   * For an answer without an id. Throws if the service answers an id that nobody has made with a record too: then all ids get the
   * same, such as a notice of maintenance, and it is about no record.
   */
  async function checkTellsApart(kind: FetchedKind, id: string, lane: Lane): Promise<void> {
    const key = `${kind} ${lane}`;
    const check = unsentChecks.get(key) ?? tellsApart(kind, lane, key);
    unsentChecks.set(key, check);
    if (await check) return;
    throw new UpstreamError(
      'malformed',
      `GET ${recordPath(kind, id)}: the answer has no id, and an id that nobody has made is answered with a record too`,
    );
  }

  async function tellsApart(kind: FetchedKind, lane: Lane, key: string): Promise<boolean> {
    const ask: Parameters<typeof read>[3] = (call) => {
      const onSend = async () => {
        unsentChecks.delete(key);
        await call.onSend();
      };
      return client.getRecord(kind, MADE_UP_ID, { ...call, onSend });
    };
    try {
      return (await read(kind, MADE_UP_ID, lane, ask, isAboutMadeUpId)).answer.outcome === 'missing';
    } catch (error) {
      if (error instanceof UpstreamError && isAboutMadeUpId(error)) return true;
      unsentChecks.delete(key);
      throw error;
    }
  }

  /**
   * Asks for an assessment that does not exist. No list shows assessments, so while none is `known`, a 404 for this id shows that
   * we may read them. Throws MirrorError `unreadable_answer` if the service answers with a record, since it would then answer so
   * for a deleted one too. While none is known, any other error is thrown too.
   */
  async function probe(kind: 'risk_assessment', lane: Lane, known: number): Promise<void> {
    let text = `${COLLECTIONS[kind]}/${MADE_UP_ID}, an id that nobody has made, is answered `;
    try {
      const { answer } = await read(kind, MADE_UP_ID, lane, (call) =>
        client.getRecord(kind, MADE_UP_ID, call),
      );
      const isUnknown = answer.outcome === 'missing';
      if (isUnknown && !answer.isPage) return await onReadable?.(kind, 'absence');
      // Reads of the known records will show more.
      if (isUnknown && known > 0) return;
      text += isUnknown ? 'with a web page' : 'with a record, so that an answer proves nothing';
    } catch (error) {
      if (signal.aborted || !(error instanceof UpstreamError)) throw error;
      if (refusesTheId(error)) return await onReadable?.(kind, 'absence');
      if (known > 0) return;
      // Nothing else is known whose read could show that the credentials are accepted.
      if (isRefusal(error)) await noteForbidden(kind, error, 1);
      if (!isUnreadable(error) || error.kind === 'no_json') throw error;
      text = unreadableText(error);
    }
    await store.openProblem({ reason: 'unreadable_answer', kind, recordId: null }, text, momentOf(clock));
    throw new MirrorError('unreadable_answer', text);
  }

  return { checkTellsApart, probe };
}
