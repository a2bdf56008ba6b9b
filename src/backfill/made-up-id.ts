import type { Lane } from '../compliance/budget.ts';
import { COLLECTIONS, type RecordAnswer, recordPath } from '../compliance/client.ts';
import { isRefusal, isUnreadable, UpstreamError, unreadableText } from '../compliance/errors.ts';
import type { FetchedKind, Kind } from '../compliance/kinds.ts';
import { momentOf } from '../platform/clock.ts';
import { MirrorError } from '../platform/errors.ts';
import type { Verbs } from '../store/store.ts';
import type { Context } from './context.ts';

/** No service gives its records such an id. */
const MADE_UP_ID = 'compliance-mirror-asks-whether-it-may-read';

/** The service rejects the form of the made-up id, because its ids are numbers or UUIDs. So our credentials were accepted. */
const refusesTheId = ({ kind, isPage }: UpstreamError) => kind === 'not_taken' && !isPage;

/**
 * The service tells the made-up id from the id of a record, in its own way: some hide what they do not have behind a 403, and some
 * fail at an id that has not their form.
 */
const isAboutMadeUpId = (error: UpstreamError) =>
  isUnreadable(error) || error.kind === 'forbidden' || error.kind === 'server';

/** Asks for an id that nobody has made: what the service answers to it shows what its other answers mean. */
export function createMadeUpId({
  store,
  ask,
  noteForbidden,
  onReadable,
  clock,
  signal,
}: Pick<Context, 'clock' | 'signal'> & {
  store: Pick<Verbs, 'openProblem'>;
  /** `isAnswer`: errors that are no failure of the service. */
  ask: (
    kind: FetchedKind,
    id: string,
    lane: Lane,
    how?: { isAnswer: (error: UpstreamError) => boolean; tries?: number },
  ) => Promise<{ answer: RecordAnswer }>;
  noteForbidden: (kind: Kind, error: UpstreamError, records: number) => Promise<void>;
  onReadable?: (kind: Kind, how: 'absence') => Promise<void>;
}) {
  /**
   * For an answer without an id. Throws if the service answers an id that nobody has made with a record too: then all ids get the
   * same, such as a notice of maintenance, and it is about no record.
   */
  async function checkTellsApart(kind: FetchedKind, id: string, lane: Lane, tries = 1): Promise<void> {
    try {
      const { answer } = await ask(kind, MADE_UP_ID, lane, { isAnswer: isAboutMadeUpId, tries });
      if (answer.outcome === 'missing') return;
    } catch (error) {
      if (error instanceof UpstreamError && isAboutMadeUpId(error)) return;
      throw error;
    }
    throw new UpstreamError(
      'malformed',
      `GET ${recordPath(kind, id)}: the answer has no id, and an id that nobody has made is answered with a record too`,
    );
  }

  /**
   * Asks for an assessment that does not exist. No list shows assessments, so while none is `known`, a 404 for this id shows that
   * we may read them. Throws MirrorError `unreadable_answer` if the service answers with a record, since it would then answer so
   * for a deleted one too. While none is known, any other error is thrown too.
   */
  async function probe(kind: 'risk_assessment', lane: Lane, known: number): Promise<void> {
    let text = `${COLLECTIONS[kind]}/${MADE_UP_ID}, an id that nobody has made, is answered `;
    try {
      const { answer } = await ask(kind, MADE_UP_ID, lane);
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
