import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createStage, type ProblemSeen, type Stage } from './stage.ts';

interface Status {
  verdict: string;
  problems: { reason: string; kind: string | null }[];
  kinds: { kind: string; verdict: string; records: number }[];
  learned_pointers: { kind: string; path: string }[];
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

const openProblems = async () => (await stage.problems()).filter(({ resolved_at }) => resolved_at === null);
const unknown = (recordId: string | null = null) =>
  stage.leapUntil('the problem', async () => {
    expect(isSettled('risk_assessment')).toBe(false);
    const open = await openProblems();
    return (
      open.find(({ reason, record_id }) => reason === 'unknown_record' && record_id === recordId) ?? null
    );
  });
interface Found {
  status: string;
  pointer: { path: string; record_id: string } | null;
  retried: number;
  says: string;
}
/** A person has the API asked; the clock goes on until it has answered. */
async function find({ id }: ProblemSeen): Promise<Found> {
  let found: Found | Error | null = null;
  stage.post<Found>(`/api/problems/${id}/resolve`, { find: true }).then(
    (answer) => {
      found = answer;
    },
    (error: Error) => {
      found = error;
    },
  );
  const answer = await stage.leapUntil<Found | Error>('the answer', () => found);
  if (answer instanceof Error) throw answer;
  return answer;
}

describe('a risk event whose id stands where no pointer looks', () => {
  beforeEach(() => begin());

  it.each<[string, object]>([
    ['assessment_id', { assessment_id: 'RA-1' }],
    ['assessment.ref', { assessment: { ref: 'RA-1' }, number: 77, code: 'zz' }],
  ])('at %s, is mirrored once a person has the API asked, and so are all others', async (path, data) => {
    for (const id of ['RA-1', 'RA-2']) put(id);
    const about = (id: string) =>
      event('risk.assessed', JSON.parse(JSON.stringify(data).replace('RA-1', id)) as object);
    const [one, two] = [about('RA-1'), about('RA-2')];
    expect(await stage.deliver(one)).toBe(202);
    expect(await stage.deliver(two)).toBe(202);
    const problem = await unknown();
    expect(problem.error).toContain(`${path} = RA-2`);
    expect(problem).toMatchObject({ verdict: 'action_required', needs: 'you' });
    const before = requestsFor('/risk-assessments/RA');
    await stage.post('/api/syncs');
    stage.clock.leap(60_000);
    await unknown();
    // Nothing asks for them until a person does.
    expect(requestsFor('/risk-assessments/RA')).toBe(before);

    expect(await find(problem)).toMatchObject({
      status: 'found',
      pointer: { path, record_id: 'RA-2' },
      retried: 2,
      says: expect.stringContaining(path),
    });
    await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
    expect(await shown(one.id)).toMatchObject({ state: 'processed', record_id: 'RA-1', reason: null });
    await settled('risk_assessment');
    expect(await isOpen('unknown_record')).toBe(false);
    expect((await status()).learned_pointers).toMatchObject([{ kind: 'risk_assessment', path }]);

    // Later ones are read as they come, after a restart too.
    const asked = requestsFor('/risk-assessments/77');
    await stage.stop();
    await stage.start();
    put('RA-3');
    await stage.deliver(about('RA-3'));
    await settledWhole('risk_assessment');
    expect(requestsFor('/risk-assessments/77')).toBe(asked);
  });

  it('is never in sync before that, and the API that cannot be asked proves nothing', async () => {
    put('RA-1');
    stage.upstream.faultOf = ({ path }) =>
      path.includes('/risk-assessments/RA-1') ? { fault: 'status', status: 503 } : null;
    await stage.deliver(event('risk.assessed', { assessment_id: 'RA-1' }));
    expect(await find(await unknown())).toMatchObject({
      status: 'not_found',
      pointer: null,
      says: expect.stringMatching(/could not be asked: .*503/),
    });
    stage.upstream.faultOf = () => null;
    expect(await find(await unknown())).toMatchObject({ status: 'found', retried: 1 });
    await settledWhole('risk_assessment');
  });

  it('is taken for nothing where two values are proven, and the answer shows both', async () => {
    put('RA-1');
    put('RA-2');
    const one = event('risk.assessed', { first: { ref: 'RA-1' }, second: { ref: 'RA-2' } });
    await stage.deliver(one);
    const { says } = await find(await unknown());
    expect(says).toContain('first.ref = RA-1, second.ref = RA-2');
    expect(says).toContain('ID_POINTERS_RISK_ASSESSMENT');
    expect(await status()).toMatchObject({ verdict: 'action_required', learned_pointers: [] });
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

  it.each(['nothing else is known', 'another assessment can be read'])(
    'has its assessment mirrored once a person has the API asked, and later ones at once, where %s',
    async (what) => {
      if (what !== 'nothing else is known') {
        put('RA-0');
        await stage.deliver(event('risk.assessed', { riskAssessmentId: 'RA-0' }));
        await settledWhole('risk_assessment');
      }
      for (const id of ['RA-1', 'RA-2', 'RA-3']) put(id);
      // Two of them name the same thing, and a third another one.
      const events = [about('RA-1', 'ven-1', { code: 'zz' }), about('RA-2'), about('RA-3', 'row-3')];
      for (const one of events) await stage.deliver(one);
      await unknown('row-3');
      const problem = await unknown('ven-1');
      expect(problem.error).toContain('assessment.ref = RA-2');
      expect(await find(problem)).toMatchObject({
        pointer: { path: 'assessment.ref', record_id: 'RA-2' },
        retried: 3,
      });
      await settledWhole('risk_assessment');
      expect(await openProblems()).toEqual([]);
      for (const [nth, { id }] of events.entries())
        expect(await shown(id)).toMatchObject({ state: 'processed', record_id: `RA-${nth + 1}` });

      stage.upstream.records.put('assessments', { id: 'RA-1', name: 'Renamed', status: 'open' });
      await stage.deliver(about('RA-1'));
      await settledWhole('risk_assessment');
    },
  );

  it('is about its assessment once a setting says so, and nothing else is left of it', async () => {
    put('RA-1');
    const events = ['row-1', 'row-2'].map((id) => about('RA-1', id));
    for (const one of events) await stage.deliver(one);
    for (const id of ['row-1', 'row-2']) await unknown(id);
    await stage.stop();
    const first = stage;
    stage = await createStage({
      DATABASE_URL: `file:${first.database}`,
      COMPLIANCE_BASE_URL: first.upstream.baseUrl,
      ID_POINTERS_RISK_ASSESSMENT: 'assessment.ref,id',
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

  it('is told so where a setting of the person’s goes before what was proven', async () => {
    await stage.end();
    await begin({ ID_POINTERS_RISK_ASSESSMENT: 'id' });
    put('RA-1');
    await stage.deliver(about('RA-1'));
    const { says, retried } = await find(await unknown('ven-1'));
    expect(says).toContain('ID_POINTERS_RISK_ASSESSMENT goes first: put assessment.ref in front of it');
    expect(retried).toBe(0);
    await unknown('ven-1');
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
  expect((await shown(one.id)).reason).toContain('nothing else in it looks like one');
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
  beforeEach(async () => {
    await begin();
    // Else the first full sync may still read it.
    await settled('vendor');
  });

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
      /vendors\/ven-1: answered 403: not now, while others of its kind can be read/,
    );
    expect(problems.filter(({ reason }) => reason === 'credentials_rejected')).toEqual([]);
    forbid(() => false);
    await settled('vendor');
    expect(stage.compare().differences).toEqual([]);
  });

  it('as every other is, is a matter of the credentials', async () => {
    forbid((path) => path.includes('/vendors/'));
    await rename('ven-1', 'Hidden');
    // Not only the open ones: the list can be read, so after a few failures it settles the record, and the problem is over.
    await stage.leapUntil('a problem', async () => (await stage.problems()).length > 0);
    forbid(() => false);
    await settled('vendor');
    const named = (await stage.problems()).map(({ reason, record_id }) => `${reason} ${record_id}`);
    expect(new Set(named)).toEqual(new Set(['credentials_rejected null']));
    expect(stage.compare().differences).toEqual([]);
  });
});
