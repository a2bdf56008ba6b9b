import { getHeapStatistics } from 'node:v8';
import type { Lane } from '../compliance/budget.ts';
import type { Page } from '../compliance/client.ts';
import { isUnreadable, UpstreamError, unreadableText } from '../compliance/errors.ts';
import type { Kind, ListedKind } from '../compliance/kinds.ts';
import { explainBefore, explainRepeat, isOffset, isWholeList, type SeenPage } from '../compliance/paging.ts';
import { recordIdIn } from '../compliance/pointers.ts';
import { momentOf } from '../platform/clock.ts';
import { describeError, MirrorError } from '../platform/errors.ts';
import type { Applied, ReadMoment, ReadObject, SyncRunProgress } from '../store/store.ts';
import { type Context, causeOf, READ_TRIES } from './context.ts';
import { type Clashes, createClashes, malformed, rowsOf } from './rows.ts';
import type { Upstream } from './upstream.ts';
import { type ListScan, lackOf } from './whole-list.ts';

/** For a page that need not exist. Few, because several failures in a row make all other requests wait. */
const TRIES_PER_EXTRA_PAGE = 2;

/** No service lists more. Without a limit, a list that repeats its pages in turn would be read for ever. */
const PAGES_MAX = 200_000;

/** Records saved in one commit, whatever the page size. Deliveries wait for it: about 20 ms if all records are new. */
const SLICE = 500;

/** The part of the heap that the ids of one list may take, and what one takes besides its characters: it stands in several sets. */
const HEAP_SHARE_OF_IDS = 1 / 4;
const BYTES_OF_ID = 400;

interface ListRequest {
  kind: ListedKind;
  syncRunId: number;
  lane: Lane;
  /** Updated after each page. The commit of a page also saves the number of pages with it, and the counts without it. */
  progress: SyncRunProgress;
  /** Records that an earlier scan of this full sync has counted. */
  seenBefore: ReadonlySet<string>;
  onPage: (applied: readonly Applied[], total: number | null) => void;
}

/** What only the scan itself needs to know. */
interface UnderWay {
  request: ListRequest;
  list: ListScan;
  isRefused: boolean;
  pages: number;
  /** It became shorter, or showed a record twice. */
  lostSome: boolean;
  showedUnannounced: boolean;
  hasSeveralPages: boolean;
  idBytes: number;
  clashes: Clashes;
}

const sizeOf = ({ ids, gone }: Pick<ListScan, 'ids' | 'gone'>) => ids.size + gone.size;

/**
 * Reads a list page by page to its end, and brings the records of each page into sync. The empty page behind the last one is its end. Once
 * as many records were seen as the list's total says, a refusal, a failure, or a page that repeats the one before or the first ends it
 * too: a service without pages repeats the first. A row without a usable id is told at the end, once all others are saved.
 */
export function createListScanner(
  options: Context & {
    upstream: Pick<Upstream, 'page' | 'noteWitness' | 'isOwnFault'>;
    /** Bytes that ids may take. */
    idBytesMax?: number;
  },
) {
  const { store, upstream, clock, paging, pointers } = options;
  const idBytesMax = options.idBytesMax ?? getHeapStatistics().heap_size_limit * HEAP_SHARE_OF_IDS;
  const byOffset = isOffset(paging.pageParam);
  /** Of the last whole scan of each list. */
  const clashesOf = new Map<Kind, Clashes>();

  return async (request: ListRequest): Promise<ListScan> => {
    const { kind } = request;
    const beganWall = clock.wall();
    const list: ListScan = {
      lack: null,
      steady: true,
      again: 'no',
      ids: new Set(),
      twice: new Set(),
      gone: new Set(),
      number: await store.currentNumber(),
      beganAt: clock.steady(),
      endedAt: clock.steady(),
      agedMs: 0,
      total: null,
    };
    const scan: UnderWay = {
      request,
      list,
      isRefused: false,
      pages: 0,
      lostSome: false,
      showedUnannounced: false,
      hasSeveralPages: false,
      idBytes: 0,
      clashes: createClashes(kind),
    };
    const since = list.number;
    try {
      await readPages(scan);
      const before = clashesOf.get(kind);
      clashesOf.set(kind, scan.clashes);
      scan.clashes.compare(before);
      const announced = scan.isRefused ? await store.announced(kind, since) : [];
      const missing = announced.filter((id) => !list.ids.has(id) && !list.gone.has(id));
      list.lack = lackOf({ ...list, isRefused: scan.isRefused, missing });
      if (list.lack === null) list.again = await whetherAgain(scan, beganWall);
    } catch (error) {
      if (!(error instanceof MirrorError) || error.code === 'store_unavailable') throw error;
      const stays = staysOf(error, scan);
      list.lack = { error: error.message, ...(stays === undefined ? {} : { stays }) };
      const text = unreadablePage(error);
      const problem = { reason: 'unreadable_answer', kind, recordId: null } as const;
      if (text !== null) await store.openProblem(problem, text, momentOf(clock), stays);
    }
    return list;
  };

  async function readPages(scan: UnderWay): Promise<void> {
    const { request, list } = scan;
    const { kind, lane } = request;
    /** The ids of the page before, and of the first one. Some services begin again behind their last page. */
    let before = '';
    let opening: string | null = null;
    let first: SeenPage | null = null;
    /** About the first row without a usable id. */
    let unusable: string | null = null;
    let wasEmpty = false;
    /** Why the last page with rows says itself that it cannot be the last one. */
    let goesOn: string | null = null;
    let offset = 0;
    /** With rows; and how many there are, by the last page that says so. */
    let [pagesWithRows, pages] = [0, 0];
    /** Rows of the longest page. */
    let longest = 0;
    // Pages are asked for ahead. Their retries end with the scan.
    let isReading = true;
    let asked = 0;
    const ahead: { number: number; answered: ReturnType<typeof upstream.page> }[] = [];
    const ask = () => {
      const number = byOffset ? offset : paging.firstPage + asked;
      asked += 1;
      // By its rows and not by their ids: a record that has moved stands on two pages, or was on none.
      const isBehindLast = list.total !== null && offset >= list.total;
      const how = { isBehindLast, tries: READ_TRIES, isWanted: () => isReading };
      const answered = upstream.page(kind, number, lane, how);
      // It may fail while the page before it is still being saved.
      answered.catch(() => undefined);
      ahead.push({ number, answered });
    };
    /** One page, and where pages are counted and the total says so, the one behind it: it is answered while the first is taken apart. */
    const askAhead = (isCounted: boolean) => {
      if (ahead.length === 0) ask();
      if (isCounted && !byOffset && list.total !== null && offset + longest < list.total) ask();
    };
    try {
      ask();
      for (let page = 0; page < PAGES_MAX; page += 1) {
        const { number, answered } = ahead.shift()!;
        const { answer, read } = await answered;
        offset += answer.objects.length;
        longest = Math.max(longest, answer.objects.length);
        noteAnswer(scan, answer, read);
        pages = answer.pages ?? pages;
        const hasRows = answer.objects.length > 0;
        // The next page is asked for before this one is looked at and saved, so that neither the service nor the database waits. The second
        // one may be the whole list once more.
        if (hasRows && page !== 1) askAhead(page > 0);
        const { objects, gone, other } = rowsOf(kind, answer, pointers);
        const ids = JSON.stringify([...objects.map((object) => object.id), ...gone]);
        const isRepeat = hasRows && (ids === before || ids === opening);
        if ((isRepeat || !hasRows) && unusable !== null) throw malformed(unusable);
        if (isRepeat && page === 1) {
          const whole = { ...seenIn(kind, answer), next: first!.next };
          if (!isWholeList(whole, paging)) throw misfit(explainRepeat(first!, paging));
        } else if (isRepeat && sizeOf(list) !== list.total) {
          throw unended(`page ${number} repeats ${ids === before ? 'the one before it' : 'the first'}`);
        }
        if (isRepeat) return;
        before = ids;
        opening ??= ids;
        first ??= seenIn(kind, answer);
        if (other !== null) {
          const where = byOffset ? `the page at offset ${number}` : `page ${number}`;
          unusable ??= `row ${other.row} of ${where}: a ${kind} ${other.why}`;
        }
        if (hasRows) {
          wasEmpty = false;
          pagesWithRows += 1;
          // Of a full page nobody knows whether it is the last one, the service included.
          const isShort = answer.isShort === true && (page === 0 || answer.objects.length < longest);
          goesOn =
            isShort && answer.saysMore ? `page ${number} is not full, its field “${answer.next}” says` : null;
          if (page === 1) askAhead(true);
          await savePage(scan, objects, gone, read);
          continue;
        }
        // Some services name a next page behind the last one too, so the page after it decides.
        const { next: says, saysMore } = answer;
        if (wasEmpty || says === null || (list.total !== null && !saysMore)) {
          if (saysMore)
            throw unended(`page ${number} is empty, and its field “${says}” says that the list goes on`);
          if (goesOn !== null) throw unended(`${goesOn} that the list goes on, and page ${number} is empty`);
          // An empty list may have one page.
          if (pages > Math.max(1, pagesWithRows) && sizeOf(list) !== list.total)
            throw unended(`page ${number} is empty, and the list says that it has ${pages} pages`);
          scan.isRefused = answer.isRefusal === true;
          return await checkFirstPage(scan, first);
        }
        wasEmpty = true;
        askAhead(false);
      }
      throw unended(`after ${PAGES_MAX} pages the list had not ended`);
    } finally {
      isReading = false;
    }
  }

  function noteAnswer(scan: UnderWay, answer: Page, read: ReadMoment): void {
    const { list, request } = scan;
    list.number = Math.min(list.number, read.number);
    list.beganAt = Math.min(list.beganAt, read.beganAt);
    list.endedAt = read.endedAt;
    list.agedMs = Math.max(list.agedMs, answer.agedMs ?? 0);
    const total = answer.meta.total ?? list.total;
    if (list.total !== null && total !== list.total) list.steady = false;
    if (list.total !== null && total! < list.total) scan.lostSome = true;
    list.total = total;
    request.progress.pages += 1;
    scan.pages += 1;
  }

  async function savePage(
    scan: UnderWay,
    objects: readonly ReadObject[],
    gone: readonly string[],
    read: ReadMoment,
  ): Promise<void> {
    const { list, request } = scan;
    const { kind, syncRunId } = request;
    if (list.total === null) scan.clashes.note(objects);
    for (const id of [...gone, ...objects.map((object) => object.id)])
      if (list.ids.has(id) || list.gone.has(id)) list.twice.add(id);
    if (list.twice.size > 0) {
      list.steady = false;
      scan.lostSome = true;
    }
    for (const id of gone) hold(scan, id, list.gone);
    if (objects.length === 0) return;
    scan.hasSeveralPages = list.ids.size > 0;
    const applied = await save(request, objects, read);
    const told = new Set(applied.map(({ id }) => id));
    const confirmed = objects.filter(({ id }) => !told.has(id));
    if (confirmed.length > 0 || applied.some((one) => one.witness)) upstream.noteWitness(kind, read);
    scan.showedUnannounced ||= applied.some(
      ({ outcome, announced }) => (outcome === 'inserted' || outcome === 'revived') && !announced,
    );
    options.onApplied(kind, applied, causeOf(syncRunId));
    for (const { id } of confirmed) count(scan, id, 'unchanged');
    // A row that leaves out fields counts after the record was read at its own address.
    for (const { id, outcome, lacks } of applied)
      count(scan, id, lacks && outcome === 'unchanged' ? null : outcome);
    request.onPage(applied, list.total);
  }

  async function save(
    { kind, syncRunId, progress }: ListRequest,
    objects: readonly ReadObject[],
    read: ReadMoment,
  ): Promise<Applied[]> {
    const { timing } = options;
    const context = { cause: causeOf(syncRunId), syncRunId, timing, pointers };
    const applied: Applied[] = [];
    for (let from = 0; from < objects.length; from += SLICE) {
      options.signal.throwIfAborted();
      const slice = objects.slice(from, from + SLICE);
      // A page counts once all of it is saved.
      const isLast = from + SLICE >= objects.length;
      const saved = isLast ? { ...context, progress } : context;
      for (const one of await store.applyReads(kind, slice, read, saved)) applied.push(one);
    }
    return applied;
  }

  /** A record counts once, even if a list that moved has it on two pages. */
  function count(scan: UnderWay, id: string, outcome: Applied['outcome'] | null): void {
    const { list, request } = scan;
    const { progress, seenBefore } = request;
    const isAgain = list.ids.has(id) || seenBefore.has(id);
    if (!isAgain) progress.seen += 1;
    if (outcome === 'inserted') progress.inserted += 1;
    else if (outcome === 'updated' || outcome === 'revived') progress.updated += 1;
    else if (outcome === 'unchanged' && !isAgain) progress.unchanged += 1;
    list.gone.delete(id);
    hold(scan, id, list.ids);
  }

  function hold(scan: UnderWay, id: string, among: Set<string>): void {
    const { ids, gone } = scan.list;
    if (ids.has(id) || gone.has(id)) return;
    among.add(id);
    scan.idBytes += BYTES_OF_ID + 2 * id.length;
    if (scan.idBytes <= idBytesMax) return;
    const shown = sizeOf(scan.list);
    throw malformed(`the list has shown ${shown} ids, more than the memory of this process is for`);
  }

  function seenIn(kind: Kind, { objects, meta, next }: Page): SeenPage {
    return { ids: objects.flatMap((object) => recordIdIn(object, kind, pointers) ?? []), meta, next };
  }

  /** Null: the service has no such page. */
  async function pageBefore({ kind, lane }: ListRequest): Promise<SeenPage | null> {
    try {
      const how = { tries: TRIES_PER_EXTRA_PAGE };
      return seenIn(kind, (await upstream.page(kind, paging.firstPage - 1, lane, how)).answer);
    } catch (error) {
      // Some services answer 500 for page 0.
      const isNone = error instanceof UpstreamError && (isUnreadable(error) || error.kind === 'server');
      if (isNone) return null;
      throw error;
    }
  }

  /** A list read from its second page on looks like a whole one. Throws if the page before the first holds records of it. */
  async function checkFirstPage({ request, list }: UnderWay, first: SeenPage): Promise<void> {
    // With a total that fits, nothing can be missing before the first page.
    if (byOffset || paging.firstPage === 0 || sizeOf(list) === list.total) return;
    const earlier = await pageBefore(request);
    const seen = { has: (id: string) => list.ids.has(id) || list.gone.has(id) };
    const finding = explainBefore(earlier, first, seen, paging);
    if (finding !== null) throw misfit(finding);
  }

  /**
   * An event counts that reported a deletion during the scan, or up to SETTLE before it, since pages may be that old. It may come late:
   * if the list showed what no event announced, this waits SETTLE for it.
   */
  async function whetherAgain(
    { request, list, showedUnannounced, hasSeveralPages, lostSome }: UnderWay,
    beganWall: number,
  ): Promise<ListScan['again']> {
    const { settleMs } = options.timing;
    if (hasSeveralPages && showedUnannounced) await clock.sleep(settleMs, options.signal);
    options.signal.throwIfAborted();
    const from = beganWall - settleMs;
    const isShortened =
      hasSeveralPages && (await store.hasAnnouncedDeletion(request.kind, list.number, from));
    if (list.total === null && list.twice.size > 0) return 'more';
    if (showedUnannounced && (lostSome || list.total === null || isShortened)) return 'more';
    return isShortened || !list.steady ? 'once' : 'no';
  }

  /** The text of a problem about an unreadable page; null: the scan ended for another reason. */
  function unreadablePage(error: MirrorError): string | null {
    if (upstream.isOwnFault(error)) return unreadableText(error);
    return error.code === 'malformed_page' || error.code === 'paging' ? describeError(error) : null;
  }
}

/** Failures of ours to make a whole list of its pages. Their words name what was shown, and no more. */
const CONTRADICTIONS: readonly string[] = ['malformed_page', 'paging', 'unended_list'];

/** What a person can accept of a scan that ended so, since another one will end no better. Not that nothing was read. */
function staysOf(error: MirrorError, { list, pages }: UnderWay): string | undefined {
  if (CONTRADICTIONS.includes(error.code)) return error.message;
  const isLasting = error instanceof UpstreamError && isUnreadable(error) && !error.retryable;
  return isLasting && sizeOf(list) > 0 ? `${error.kind} behind page ${pages}` : undefined;
}

const misfit = (why: string) => new MirrorError('paging', `the paging does not fit: ${why}`);
const unended = (why: string) => new MirrorError('unended_list', why);
