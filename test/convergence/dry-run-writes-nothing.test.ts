import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createStage, type Stage } from './stage.ts';

interface Compared {
  kind: string;
  missing: number;
  extra: number;
  different: number;
  incomplete: string | null;
  examples: { id: string; what: string }[];
}

let stage: Stage;

beforeEach(async () => {
  stage = await createStage({ SYNC_FULL_MINUTES: '0', COMPLIANCE_PAGE_SIZE: '10' });
  await stage.start();
  await stage.leapUntil('first equality', () => stage.compare().differences.length === 0);
  await stage.leapUntil('end of the start’s full syncs', async () => {
    const { items } = await stage.get<{ items: { outcome: string | null }[] }>('/api/sync-runs');
    return items.length >= 3 && items.every(({ outcome }) => outcome !== null);
  });
});
afterEach(() => stage.end());

/** Every row of every table, but for what the service's heartbeat writes as time goes by. */
function contents(): Record<string, unknown[]> {
  const db = new DatabaseSync(stage.database, { readOnly: true, timeout: 5_000 });
  try {
    const names = db
      .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'kind_state' ORDER BY name")
      .all();
    return Object.fromEntries(
      names.map(({ name }) => [
        String(name),
        db
          .prepare(
            `SELECT * FROM ${name}${name === 'facts' ? " WHERE name NOT IN ('heartbeat', 'asked_of_api')" : ''}`,
          )
          .all(),
      ]),
    );
  } finally {
    db.close();
  }
}

/** Time leaps until it is answered: failing requests are tried again, with pauses. */
async function compare(kinds: string[]): Promise<Compared[] | string> {
  let answer: Compared[] | string | null = null;
  void stage
    .post<{ kinds: Compared[] }>('/api/sync-runs', { dry_run: true, kinds })
    .then(({ kinds: compared }) => compared)
    .catch((error: Error) => error.message)
    .then((done) => {
      answer = done;
    });
  return await stage.leapUntil('an answer', () => answer);
}

function differences(): void {
  const { records } = stage.upstream;
  records.put('policies', { id: 'pol-unseen', name: 'New', version: '1.0', status: 'draft' });
  records.put('vendors', { ...records.find('vendors', 'ven-1')!, name: 'Renamed' });
  records.remove('vendors', 'ven-2');
}

describe('a dry run through the service', () => {
  it('changes no row of any table, whatever it finds', async () => {
    differences();
    const before = contents();
    expect(await compare(['policy', 'risk_assessment', 'vendor'])).toMatchObject([
      { kind: 'policy', missing: 1, extra: 0, different: 0, incomplete: null },
      { kind: 'risk_assessment', missing: 0, extra: 0, different: 0, incomplete: null },
      { kind: 'vendor', missing: 0, extra: 1, different: 1, incomplete: null },
    ]);
    expect(contents()).toEqual(before);
  });

  it.each([401, 403, 404, 500, 503])('changes none when the API answers %i', async (status) => {
    const before = contents();
    // Not to the service's own look whether the API answers.
    stage.upstream.faultOf = ({ path }) => (path.endsWith('perPage=1') ? null : { fault: 'status', status });
    // More failures in a row than the repairs' own reading takes for an outage.
    for (let times = 0; times < 3; times += 1) expect(await compare(['vendor'])).toMatch(/answered 502/);
    expect(contents()).toEqual(before);
    // Nor has the service learnt of it.
    const { upstream } = await stage.get<{ upstream: { consecutive_failures: number } }>('/api/status');
    expect(upstream.consecutive_failures).toBe(0);
  });

  it('asks again for a page that fails once', async () => {
    let failed = 0;
    stage.upstream.faultOf = ({ path }) => {
      if (!path.includes('page=2&') || failed > 0) return null;
      failed += 1;
      return { fault: 'status', status: 500 };
    };
    expect(await compare(['policy'])).toMatchObject([{ missing: 0, extra: 0, different: 0 }]);
    expect(failed).toBe(1);
  });

  it('counts nothing as extra in a list that contradicts its own total', async () => {
    const { records } = stage.upstream;
    records.remove('policies', 'pol-7');
    stage.upstream.onRequest = ({ path }) => {
      if (path.includes('page=4&')) records.remove('policies', 'pol-8');
    };
    const [policies] = (await compare(['policy'])) as Compared[];
    expect(policies).toMatchObject({ missing: 0, extra: 0, different: 0 });
    expect(policies?.incomplete).toContain('29 records where its total says 28');
  });

  it('counts a record once that a list shows twice, since it moved while it was read', async () => {
    const { records } = stage.upstream;
    records.put('policies', { ...records.find('policies', 'pol-20')!, name: 'Renamed' });
    stage.upstream.onRequest = ({ path }) => {
      // The last one of the first page is now the first one of the second.
      if (path.includes('page=2&'))
        records.put('policies', { id: 'pol-unseen', name: 'New', version: '1.0' });
    };
    const [policies] = (await compare(['policy'])) as Compared[];
    expect(policies).toMatchObject({ missing: 0, extra: 0, different: 1 });
  });

  it('does not count as extra what came while it read, too late for its page', async () => {
    const { records } = stage.upstream;
    // Held back, and not failed: the tries would be used up before its row is there.
    const isThere = Promise.withResolvers<void>();
    stage.upstream.faultOf = ({ path }) =>
      path.includes('page=4&') ? { fault: 'held', until: isThere.promise } : null;
    stage.upstream.seen.length = 0;
    const policies = compare(['policy']);
    const asked = () => stage.upstream.seen.some(({ path }) => path.includes('page=4&'));
    await stage.leapUntil('the last page', asked, 0);
    // One comes and one goes: the list's total stays.
    const late = { id: 'pol-late', name: 'Late', version: '1.0', status: 'draft' };
    records.put('policies', late);
    records.remove('policies', 'pol-1');
    await stage.tell('policy.created', 'policies', late);
    const rows = () => contents()['policies'] as { id: string }[];
    await stage.leapUntil('its row', () => rows().some(({ id }) => id === 'pol-late'), 0);
    isThere.resolve();
    expect(await policies).toMatchObject([{ missing: 0, extra: 0, different: 0, incomplete: null }]);
  });

  it('finds assessments that live again, and those that have come to be, and nothing else', async () => {
    const { records } = stage.upstream;
    const assessment = (id: string) => ({ id, name: id, status: 'open' });
    const exist = ['risk-buried', 'risk-gone', 'risk-lives'];
    for (const id of exist) records.put('assessments', assessment(id));
    for (const id of [...exist, 'risk-early']) {
      await stage.tell('risk.identified', 'assessments', assessment(id));
    }
    const known = () => contents()['risk_assessments'] as { id: string; deleted_at: string | null }[];
    await stage.leapUntil('all rows', () => known().length === exist.length);
    for (const id of ['risk-buried', 'risk-gone']) records.remove('assessments', id);
    await stage.post('/api/sync-runs', { kinds: ['risk_assessment'] });
    const buried = () => known().filter((row) => row.deleted_at !== null);
    await stage.leapUntil('the tombstones', () => buried().length === 2);

    // Else the service might look for them again by itself, and find them first.
    await stage.post('/api/pause');
    let asked = -1;
    const isQuiet = () => {
      const before = asked;
      asked = stage.upstream.seen.length;
      return asked === before;
    };
    await stage.leapUntil('the last answer to what it had asked before', isQuiet, 10_000);
    records.put('assessments', assessment('risk-buried'));
    records.put('assessments', assessment('risk-early'));
    let failed = 0;
    stage.upstream.faultOf = ({ path }) => {
      if (!path.endsWith('/risk-early') || failed > 0) return null;
      failed += 1;
      return { fault: 'status', status: 500 };
    };
    const [compared] = (await compare(['risk_assessment'])) as Compared[];
    expect(failed).toBe(1);
    expect(compared).toMatchObject({ missing: 2, extra: 0, different: 0 });
    expect(compared?.examples.map(({ id, what }) => `${id} ${what}`)).toEqual([
      'risk-buried missing',
      'risk-early missing',
    ]);
  });
});
