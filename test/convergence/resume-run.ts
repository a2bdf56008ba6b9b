import Database from 'better-sqlite3';
import { startIndependentUpstream } from '../support/independent-upstream.ts';
import { fill } from '../support/independent-upstream-records.ts';
import { compare } from './compare.ts';
import { createService, eventually } from './service.ts';

export interface ResumeResult {
  pages: number;
  /** The page that was being asked for as the process was killed. */
  killedAtPage: number;
  /** The first page of vendors that the next process asked for. */
  resumedAtPage: number;
  syncRuns: { reason: string; outcome: string | null; pages: number; deleted: number }[];
  /** Vendors shown as deleted once the resumed full sync had ended, before the whole one did. */
  deletedByResumed: number;
  /** The vendor that is gone upstream, once the whole full sync had ended. */
  deletedAfterwards: number;
  differences: number;
}

const PAGE_SIZE = 100;

const pageOf = (path: string) => Number(new URL(path, 'http://upstream').searchParams.get('page'));
const isVendorPage = (path: string) => /\/vendors\?/.test(path);

/** Kills the service half way through its first full sync of so many vendors, and watches what the next one does. */
export async function runResume(vendors: number, withinMs: number): Promise<ResumeResult> {
  const upstream = await startIndependentUpstream();
  fill(upstream.records, { policies: 0, assessments: 0, vendors });
  const pages = Math.ceil(vendors / PAGE_SIZE);
  const service = await createService(upstream, {
    SYNC_SETTLE_SECONDS: '0.2',
    SYNC_FULL_MINUTES: '0',
    COMPLIANCE_REQUESTS_PER_MINUTE: '60000',
    LOG_LEVEL: 'error',
  });
  try {
    const half = Promise.withResolvers<number>();
    upstream.onRequest = ({ path }) => {
      if (isVendorPage(path) && pageOf(path) > pages / 2) half.resolve(pageOf(path));
    };
    await service.start();
    const killedAtPage = await half.promise;
    await service.kill();

    // Gone while nobody looked, and read before the kill: only a whole list scan may find that out.
    const gone = upstream.records.newestFirst('vendors')[0]!.id;
    upstream.records.remove('vendors', gone);
    upstream.seen.length = 0;
    upstream.onRequest = () => undefined;
    // Holds the whole full sync back, so that what the resumed one did can be seen by itself.
    let isHeldBack = true;
    upstream.faultOf = ({ path }) =>
      isHeldBack && isVendorPage(path) && pageOf(path) === 1 ? { fault: 'status', status: 503 } : null;

    const db = new Database(service.database, { readonly: true });
    const count = (sql: string) => db.prepare(sql).pluck().get() as number;
    try {
      await service.start();
      await eventually(
        'the end of the resumed full sync',
        () =>
          count(
            "SELECT count(*) FROM sync_runs WHERE kind = 'vendor' AND outcome = 'incomplete' AND error LIKE 'resumed%'",
          ) > 0,
        withinMs,
      );
      const resumedAtPage = pageOf(upstream.seen.find(({ path }) => isVendorPage(path))!.path);
      const deleted = 'SELECT count(*) FROM vendors WHERE deleted_at IS NOT NULL';
      const deletedByResumed = count(deleted);
      isHeldBack = false;
      await eventually(
        'the whole full sync',
        () =>
          count("SELECT count(*) FROM sync_runs WHERE kind = 'vendor' AND outcome = 'complete'") > 0 &&
          count(deleted) > 0,
        withinMs,
      );
      return {
        pages,
        killedAtPage,
        resumedAtPage,
        deletedByResumed,
        deletedAfterwards: count(deleted),
        syncRuns: db
          .prepare("SELECT reason, outcome, pages, deleted FROM sync_runs WHERE kind = 'vendor' ORDER BY id")
          .all() as ResumeResult['syncRuns'],
        differences: compare(service.database, upstream.records, new Set()).differences.length,
      };
    } finally {
      db.close();
    }
  } finally {
    await service.end();
    await upstream.close();
  }
}
