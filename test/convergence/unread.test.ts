import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createStage, type ProblemSeen, type Stage } from './stage.ts';

interface Status {
  verdict: string;
  problems: { reason: string; kind: string | null }[];
  kinds: { kind: string; verdict: string; records: number }[];
  learned_pointers: { kind: string; path: string; setting: string; record_id: string; used: boolean }[];
}
interface Event {
  state: string;
  record_id: string | null;
  reason: string | null;
}

const event = (type: string, data: unknown, id: string = randomUUID()) => ({
  id,
  body: JSON.stringify({ id, type, created: '2026-11-20T12:00:00Z', data }),
});

let stage: Stage;
const begin = async (settings: Record<string, string> = {}) => {
  stage = await createStage(settings);
  await stage.start();
  await stage.leapUntil('first equality', () => stage.compare().differences.length === 0);
};
afterEach(() => stage.end());

const status = () => stage.get<Status>('/api/status');
const shown = (id: string) => stage.get<Event>(`/api/deliveries/${id}`);
const verdictOf = (kind: string) => stage.verdicts()[kind];
const put = (id: string) =>
  stage.upstream.records.put('assessments', { id, name: `Assessment ${id}`, status: 'open' });
const isOpen = async (reason: string) =>
  (await stage.problems()).some((problem) => problem.reason === reason && problem.resolved_at === null);
/** Assessments have no list, so they are in sync where all that is known is verified. */
const isSettled = (kind: string) =>
  verdictOf(kind) === (kind === 'risk_assessment' ? 'known_only' : 'in_sync');
const settled = (kind: string) => stage.leapUntil(`${kind} in sync`, () => isSettled(kind));
/** Leaps until the kind is in sync, and fails if it is so with anything missing. */
const settledWhole = (kind: string) => {
  // What the page says may be a second old.
  stage.clock.leap(1_000);
  return stage.leapUntil(`${kind} in sync`, () => {
    if (!isSettled(kind)) return false;
    expect(stage.compare().differences).toEqual([]);
    return true;
  });
};
const requestsFor = (text: string) => stage.upstream.seen.filter(({ path }) => path.includes(text)).length;

describe('a risk event whose id stands where no pointer looks', () => {
  beforeEach(() => begin());

  it.each<[string, object]>([['assessment_id', { assessment_id: 'RA-1' }]])(
    'at %s, is mirrored, and says which pointer to set',
    async (path, data) => {
      put('RA-1');
      const one = event('risk.assessed', data);
      expect(await stage.deliver(one)).toBe(202);
      await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
      expect(await shown(one.id)).toMatchObject({ state: 'processed', record_id: 'RA-1', reason: null });
      await settled('risk_assessment');
      expect(await isOpen('unknown_record')).toBe(false);
      const { learned_pointers } = await status();
      expect(learned_pointers).toMatchObject([
        {
          kind: 'risk_assessment',
          path,
          record_id: 'RA-1',
          setting: expect.stringContaining(`ID_POINTERS_RISK_ASSESSMENT=${path},`),
        },
      ]);
    },
  );

  it('is never in sync before that', async () => {
    put('RA-1');
    stage.upstream.faultOf = ({ path }) =>
      path.includes('/risk-assessments/RA-1') ? { fault: 'status', status: 503 } : null;
    await stage.deliver(event('risk.assessed', { assessment_id: 'RA-1' }));
    await stage.leapUntil('the problem', () => isOpen('unknown_record'));
    await stage.post('/api/syncs');
    for (let leaps = 0; leaps < 40; leaps += 1) {
      stage.clock.leap(2_000);
      expect(isSettled('risk_assessment')).toBe(false);
    }
    stage.upstream.faultOf = () => null;
    await settled('risk_assessment');
    expect(stage.compare().differences).toEqual([]);
  });

  it('costs one search: later ones of that shape are read at once, after a restart too', async () => {
    for (const id of ['RA-1', 'RA-2', 'RA-3']) put(id);
    const about = (id: string) => event('risk.assessed', { assessment: { ref: id }, number: 77, code: 'zz' });
    await stage.deliver(about('RA-1'));
    await stage.leapUntil('the first', async () => (await status()).learned_pointers.length === 1);
    const asked = requestsFor('/risk-assessments/77');
    expect(asked).toBe(1);
    await stage.deliver(about('RA-2'));
    await stage.stop();
    await stage.start();
    await stage.deliver(about('RA-3'));
    await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
    expect(requestsFor('/risk-assessments/77')).toBe(asked);
    await settled('risk_assessment');
  });

  it('is taken for nothing where two values are proven, and the problem shows both', async () => {
    put('RA-1');
    put('RA-2');
    const one = event('risk.assessed', { first: { ref: 'RA-1' }, second: { ref: 'RA-2' } });
    await stage.deliver(one);
    const problem = await stage.leapUntil(
      'what was found',
      async () => (await stage.problems()).find(({ error }) => error?.includes('several values')) ?? null,
    );
    expect(problem.error).toContain('first.ref = RA-1, second.ref = RA-2');
    expect(problem.error).toContain('ID_POINTERS_RISK_ASSESSMENT');
    expect(await status()).toMatchObject({
      verdict: 'action_required',
      problems: [{ reason: 'unknown_record', kind: 'risk_assessment' }],
      learned_pointers: [],
    });
    expect(await shown(one.id)).toMatchObject({ state: 'failed', record_id: null });
    await expect(stage.post(`/api/deliveries/${one.id}/retry`)).rejects.toThrow(
      /409.*failed_again.*no id of/s,
    );
    await stage.post(`/api/deliveries/${one.id}/dismiss`);
    await settled('risk_assessment');
  });
});

describe('a risk event with another thing’s id where the pointers look', () => {
  beforeEach(() => begin());

  const about = (ref: string, id: unknown = 'ven-1', more: object = {}) =>
    event('risk.assessed', { id, assessment: { ref }, ...more });
  const openProblems = async () => (await stage.problems()).filter(({ resolved_at }) => resolved_at === null);
  /** Leaps until a person is told what the events with this id name besides, and fails if the kind is in sync before. */
  const told = (id: string) => {
    // What the page says may be a second old.
    stage.clock.leap(1_000);
    return stage.leapUntil(`what is beside ${id}`, async () => {
      expect(isSettled('risk_assessment')).toBe(false);
      const problem = (await openProblems()).find(({ record_id }) => record_id === id);
      return problem?.error?.includes('others that its events name') ? problem : null;
    });
  };
  const resolve = ({ id, digest }: ProblemSeen) => stage.post(`/api/problems/${id}/resolve`, { digest });
  /** A person resolves it, again if another event opened it anew, and the kind is in sync only with nothing missing. */
  const resolvedWhole = async (id: string) => {
    await resolve(await told(id));
    await stage.leapUntil('in sync', async () => {
      if (isSettled('risk_assessment')) {
        expect(stage.compare().differences).toEqual([]);
        return true;
      }
      // A refusal: it shows something else by now, and is looked at again.
      for (const problem of await openProblems())
        if (problem.record_id === id) await resolve(problem).catch(() => null);
      return false;
    });
  };

  it('has its assessment mirrored, and a problem that names the setting', async () => {
    put('RA-1');
    const one = about('RA-1', 'ven-1', { code: 'zz' });
    await stage.deliver(one);
    const problem = await told('ven-1');
    const setting = expect.stringContaining('ID_POINTERS_RISK_ASSESSMENT=assessment.ref,');
    expect(problem).toMatchObject({ reason: 'unknown_record', error: setting });
    expect(problem.error).toContain('assessment.ref = RA-1');
    // It was told once: there soon was a record to compare with, so nobody was told that there is none.
    expect(await stage.problems()).toMatchObject([{ id: problem.id, times: 1 }]);
    expect((await status()).learned_pointers).toMatchObject([
      { path: 'assessment.ref', setting, used: false },
    ]);
    // What it names is a record; whether it is what the event is about nobody knows.
    expect(await shown(one.id)).toMatchObject({ state: 'processed', record_id: 'ven-1' });
    await resolvedWhole('ven-1');
  });

  it('is no loss under green where another assessment can be read', async () => {
    put('RA-0');
    await stage.deliver(event('risk.assessed', { riskAssessmentId: 'RA-0' }));
    await settledWhole('risk_assessment');
    for (const id of ['RA-1', 'RA-2']) put(id);
    // Two of them name the same thing, so that neither may be taken for settled by what is found in the other.
    await stage.deliver(about('RA-1'));
    await stage.deliver(about('RA-2'));
    await resolvedWhole('ven-1');
    stage.upstream.records.put('assessments', { id: 'RA-1', name: 'Renamed', status: 'open' });
    await stage.deliver(about('RA-1'));
    await resolvedWhole('ven-1');
  });

  it('has all mirrored that it names, and is never in sync before, however many requests that takes', async () => {
    await stage.end();
    await begin({ COMPLIANCE_REQUESTS_PER_MINUTE: '60' });
    put('RA-0');
    await stage.deliver(event('risk.assessed', { riskAssessmentId: 'RA-0' }));
    await settledWhole('risk_assessment');
    const assessmentIds = Array.from({ length: 40 }, (_, index) => `RA-${index + 10}`);
    for (const id of ['RA-10', 'RA-27', 'RA-49']) put(id);
    await stage.deliver(event('risk.assessed', { id: 'row-1', assessmentIds }));
    await resolvedWhole('row-1');
    expect(requestsFor('/risk-assessments/RA-48')).toBe(1);
  });

  it('is about its assessment once a setting says so, and nothing else is left of it', async () => {
    put('RA-1');
    const events = ['row-1', 'row-2'].map((id) => about('RA-1', id));
    for (const one of events) await stage.deliver(one);
    for (const id of ['row-1', 'row-2']) await told(id);
    const { learned_pointers } = await status();
    await stage.stop();
    const first = stage;
    stage = await createStage({
      DATABASE_URL: `file:${first.database}`,
      COMPLIANCE_BASE_URL: first.upstream.baseUrl,
      ID_POINTERS_RISK_ASSESSMENT: learned_pointers[0]!.setting.replace('ID_POINTERS_RISK_ASSESSMENT=', ''),
    });
    await stage.start();
    stage.clock.leap(60_000);
    await stage.leapUntil('the records', async () => {
      const all = await Promise.all(events.map(({ id }) => shown(id)));
      return all.every(({ record_id }) => record_id === 'RA-1');
    });
    await stage.leapUntil('no problem', async () => (await openProblems()).length === 0);
    await settled('risk_assessment');
    expect((await status()).kinds.find(({ kind }) => kind === 'risk_assessment')).toMatchObject({
      records: 1,
    });
    await first.end();
  });
});

describe('a risk event with an id where the pointers look that no request can carry', () => {
  beforeEach(() => begin());

  it('is never in sync where it names no other, until a person has settled it', async () => {
    const one = event('risk.assessed', { id: '.' });
    await stage.deliver(one);
    await stage.leapUntil('the problem', () => isOpen('unknown_record'));
    await stage.post('/api/syncs');
    for (let leaps = 0; leaps < 10; leaps += 1) {
      stage.clock.leap(2_000);
      expect(isSettled('risk_assessment')).toBe(false);
    }
    await stage.post(`/api/deliveries/${one.id}/dismiss`);
    await settled('risk_assessment');
  });
});

describe('a policy or a vendor whose id stands where no pointer looks', () => {
  beforeEach(() => begin());

  it('vendor: is made good by the whole list where nothing in it looks like an id', async () => {
    stage.upstream.records.put('vendors', { id: 'ven-new', name: 'New', status: 'active' });
    const one = event('vendor.added', { says: 'not which' });
    await stage.deliver(one);
    await stage.leapUntil('the problem', () => isOpen('unknown_record'));
    expect(verdictOf('vendor')).toBe('catching_up');
    await settled('vendor');
    expect(stage.compare().differences).toEqual([]);
  });
});

describe('a vendor event with another thing’s id where the pointers look', () => {
  beforeEach(() => begin());

  const about = (ref: string, type = 'vendor.updated', id = 'org-1') =>
    event(type, { id, details: { ref }, says: 'changed' });
  const rename = (id: string) =>
    stage.upstream.records.put('vendors', {
      ...stage.upstream.records.find('vendors', id)!,
      name: `${id}, renamed`,
    });

  it('is no loss under green, the same id a second time neither', async () => {
    for (const id of ['ven-3', 'ven-4', 'ven-5']) {
      rename(id);
      await stage.deliver(about(id));
      await settledWhole('vendor');
    }
  });

  it('is never in sync where the API answers for that id with a vendor of another one', async () => {
    rename('ven-3');
    stage.upstream.aliases.set('org-1', 'ven-3');
    await stage.deliver(about('ven-3'));
    await stage.leapUntil('the problem', () => isOpen('unreadable_answer'));
    for (let leaps = 0; leaps < 10; leaps += 1) {
      stage.clock.leap(2_000);
      expect(verdictOf('vendor')).not.toBe('in_sync');
    }
  });
});

it('settings that name the place settle at the next start all that failed before it', async () => {
  await begin();
  const database = `file:${stage.database}`;
  // Nothing like an id in it, so that nobody can find it without the setting.
  put('RA-1');
  const one = event('risk.assessed', { about: { which: 'RA-1' } });
  await stage.deliver(one);
  await stage.leapUntil('the problem', () => isOpen('unknown_record'));
  await stage.leapUntil('what was found', async () =>
    (await shown(one.id)).reason?.includes('nothing in its data looks like an id'),
  );
  await stage.stop();
  const first = stage;
  const other = await createStage({
    DATABASE_URL: database,
    COMPLIANCE_BASE_URL: first.upstream.baseUrl,
    ID_POINTERS_RISK_ASSESSMENT: 'about.which,id',
  });
  await other.start();
  other.clock.leap(60_000);
  await other.leapUntil(
    'the record',
    async () => (await other.get<Event>(`/api/deliveries/${one.id}`)).state === 'processed',
  );
  await other.leapUntil('in sync', () => other.verdicts()['risk_assessment'] === 'known_only');
  await other.end();
});

describe('a record that is answered 403', () => {
  beforeEach(() => begin());

  const forbid = (isForbidden: (path: string) => boolean) => {
    stage.upstream.faultOf = ({ path }) => (isForbidden(path) ? { fault: 'status', status: 403 } : null);
  };
  const rename = async (id: string, name: string) => {
    const record = { ...stage.upstream.records.find('vendors', id)!, name };
    stage.upstream.records.put('vendors', record);
    await stage.deliver(event('vendor.updated', { vendorId: id, name }));
  };
  const open = async () => {
    const problems = (await stage.problems()).filter((problem) => problem.resolved_at === null);
    return problems.map(({ reason, record_id }) => `${reason} ${record_id}`);
  };

  it('alone is named by one problem until it can be read, and says nothing about the credentials', async () => {
    forbid((path) => path.endsWith('/vendors/ven-1'));
    await rename('ven-1', 'Hidden');
    await stage.leapUntil('the problem', () => isOpen('unreadable_answer'));
    for (let round = 0; round < 12; round += 1) {
      await rename('ven-2', `Seen ${round}`);
      stage.clock.leap(4_000);
      expect([await open(), verdictOf('vendor')]).toEqual([['unreadable_answer ven-1'], 'action_required']);
    }
    const problems = await stage.problems();
    expect(problems.find(({ reason }) => reason === 'unreadable_answer')?.error).toMatch(
      /vendors\/ven-1: answered 403, while others of its kind can be read/,
    );
    expect(problems.filter(({ reason }) => reason === 'credentials_rejected')).toEqual([]);
    forbid(() => false);
    await settled('vendor');
    expect(stage.compare().differences).toEqual([]);
  });

  it('as every other is, is a matter of the credentials', async () => {
    forbid((path) => path.includes('/vendors/'));
    await rename('ven-1', 'Hidden');
    await stage.leapUntil(
      'the problem alone',
      async () => (await open()).join() === 'credentials_rejected null',
    );
    forbid(() => false);
    await settled('vendor');
    expect(stage.compare().differences).toEqual([]);
  });
});
