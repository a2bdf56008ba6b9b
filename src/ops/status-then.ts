import { createHash } from 'node:crypto';
import { canonicalJson } from '../compliance/json.ts';
import { KINDS, type Kind } from '../compliance/kinds.ts';
import { VERDICTS } from '../mirror/problems.ts';
import { PAGE_LIMIT_MAX } from '../store/reports.ts';
import type { StatusThen } from './api/schemas.ts';
import type { OpsStore } from './context.ts';
import { explained } from './problems.ts';

/** What `/api/status?at=` answers. Null: no verdict is kept from then. `at`: ISO 8601 UTC. */
export async function statusThen(store: OpsStore, at: string): Promise<StatusThen | null> {
  const then = await store.statusThen(at);
  if (then === null) return null;
  const { records, digest } = await recordsThen(store, at);
  const { kinds, problems, open_problems } = then;
  return {
    at,
    verdict: VERDICTS.find((verdict) => kinds.some((kind) => kind.verdict === verdict))!,
    kinds: kinds.map((kind) => ({ ...kind, records: records[kind.kind] })),
    problems: problems.map(explained),
    open_problems,
    digest,
  };
}

/**
 * How many records were alive then, and the digest of what they were: SHA-256 over a line `[kind,id,data]` of canonical JSON for each, by
 * kind and id. Two mirrors of one service have the same digest if they held the same. Page by page, so that nothing else waits for it.
 */
async function recordsThen(
  store: OpsStore,
  at: string,
): Promise<{ records: Record<Kind, number>; digest: string }> {
  const hash = createHash('sha256');
  const records: Record<Kind, number> = { policy: 0, risk_assessment: 0, vendor: 0 };
  for (const kind of KINDS) {
    for (let after: string | undefined; ; ) {
      const { items, next } = await store.listRecords(kind, { at }, { limit: PAGE_LIMIT_MAX, after });
      for (const { id, data } of items) hash.update(`${canonicalJson([kind, id, data])}\n`);
      records[kind] += items.length;
      if (next === null) break;
      after = next;
    }
  }
  return { records, digest: hash.digest('hex') };
}
