import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { approveDeletions } from '../support/approve-deletions.ts';
import { createStage, type Stage } from './stage.ts';

interface Status {
  verdict: string;
  reason: string;
  kinds: { kind: string; verdict: string }[];
  learned_pointers: { kind: string; path: string; setting: string; record_id: string; used: boolean }[];
}
interface Event {
  state: string;
  record_id: string | null;
  error: string | null;
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
const shown = (id: string) => stage.get<Event>(`/api/events/${id}`);
const verdictOf = (kind: string) => stage.verdicts()[kind];
const put = (id: string) =>
  stage.upstream.records.put('assessments', { id, name: `Assessment ${id}`, status: 'open' });
const isOpen = async (reason: string) =>
  (await stage.gaps()).some((gap) => gap.reason === reason && gap.resolved_at === null);
const settled = (kind: string) => stage.leapUntil(`${kind} in sync`, () => verdictOf(kind) === 'in_sync');
const requestsFor = (text: string) => stage.upstream.seen.filter(({ path }) => path.includes(text)).length;

describe('a risk event whose id stands where no pointer looks', () => {
  beforeEach(() => begin());

  it.each<[string, object]>([
    ['assessment_id', { assessment_id: 'RA-1' }],
    ['riskAssessment.id', { riskAssessment: { id: 'RA-1' }, actor: { id: 'ven-1' } }],
    ['assessment.ref', { assessment: { ref: 'RA-1', title: 'x' }, number: 12 }],
    ['risk.riskId', { risk: { riskId: 'RA-1' } }],
    ['payload.subject.key', { payload: { subject: { key: 'RA-1' } } }],
  ])('at %s, is mirrored, and says which pointer to set', async (path, data) => {
    put('RA-1');
    const one = event('risk.assessed', data);
    expect(await stage.deliver(one)).toBe(202);
    await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
    expect(await shown(one.id)).toMatchObject({ state: 'processed', record_id: 'RA-1', error: null });
    await settled('risk_assessment');
    expect(await isOpen('no_record_id')).toBe(false);
    const { learned_pointers } = await status();
    expect(learned_pointers).toMatchObject([
      {
        kind: 'risk_assessment',
        path,
        record_id: 'RA-1',
        setting: expect.stringContaining(`ID_POINTERS_RISK_ASSESSMENT=${path},`),
      },
    ]);
  });

  it('is never in sync before that', async () => {
    put('RA-1');
    stage.upstream.faultOf = ({ path }) =>
      path.includes('/risk-assessments/RA-1') ? { fault: 'status', status: 503 } : null;
    await stage.deliver(event('risk.assessed', { assessment_id: 'RA-1' }));
    await stage.leapUntil('the gap', () => isOpen('no_record_id'));
    await stage.post('/api/sync-runs');
    for (let leaps = 0; leaps < 40; leaps += 1) {
      stage.clock.leap(2_000);
      expect(['in_sync']).not.toContain(verdictOf('risk_assessment'));
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

  it('is taken for nothing where two values are proven, and the gap shows both', async () => {
    put('RA-1');
    put('RA-2');
    const one = event('risk.assessed', { first: { ref: 'RA-1' }, second: { ref: 'RA-2' } });
    await stage.deliver(one);
    const gap = await stage.leapUntil(
      'what was found',
      async () => (await stage.gaps()).find(({ error }) => error?.includes('several values')) ?? null,
    );
    expect(gap.error).toContain('first.ref = RA-1, second.ref = RA-2');
    expect(gap.error).toContain('ID_POINTERS_RISK_ASSESSMENT');
    expect(await status()).toMatchObject({
      verdict: 'action_required',
      reason: 'no_record_id',
      learned_pointers: [],
    });
    expect(await shown(one.id)).toMatchObject({ state: 'failed', record_id: null });
    await expect(stage.post(`/api/events/${one.id}/retry`)).rejects.toThrow(/409.*failed_again.*no id of/s);
    await stage.post(`/api/events/${one.id}/discard`);
    await settled('risk_assessment');
  });

  it('is not taken for another that its event names while nobody understands what it is answered with', async () => {
    for (const id of ['RA-1', 'RA-2']) put(id);
    stage.upstream.faultOf = ({ path }) =>
      path.includes('/risk-assessments/RA-2') ? { fault: 'status', status: 200 } : null;
    const one = event('risk.assessed', { first: { ref: 'RA-1' }, second: { ref: 'RA-2' } });
    await stage.deliver(one);
    const says = (text: string) => async () =>
      (await stage.gaps()).some(({ error }) => error?.includes(text));
    await stage.leapUntil('what was found', says('could not be understood'));
    expect(await shown(one.id)).toMatchObject({ state: 'failed', record_id: null });
    expect((await status()).learned_pointers).toEqual([]);
    stage.upstream.faultOf = () => null;
    await stage.leapUntil('what is found then', says('several values'));
  });

  it('is not taken for another that is known while every address is answered with a 404', async () => {
    put('RA-1');
    await stage.deliver(event('risk.assessed', { riskAssessmentId: 'RA-1' }));
    await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
    put('RA-2');
    stage.upstream.faultOf = ({ path }) =>
      path.includes('/risk-assessments/') ? { fault: 'status', status: 404 } : null;
    const one = event('risk.assessed', { first: { ref: 'RA-2' }, second: { ref: 'RA-1' } });
    await stage.deliver(one);
    await stage.leapUntil('what was found', async () =>
      (await shown(one.id)).error?.includes('the API shows no record'),
    );
    expect(await shown(one.id)).toMatchObject({ state: 'failed', record_id: null });
    stage.upstream.faultOf = () => null;
    await stage.leapUntil('what is found then', async () =>
      (await stage.gaps()).some(({ error }) => error?.includes('several values')),
    );
  });

  it('is not taken for another that is read while its own address was answered with a 404 just before', async () => {
    for (const id of ['RA-1', 'RA-2']) put(id);
    stage.upstream.faultOf = ({ path }) => {
      if (!path.includes('/risk-assessments/RA-2')) return null;
      stage.upstream.faultOf = () => null;
      return { fault: 'status', status: 404 };
    };
    const one = event('risk.assessed', { first: { ref: 'RA-2' }, second: { ref: 'RA-1' } });
    await stage.deliver(one);
    await stage.leapUntil('what is found', async () =>
      (await stage.gaps()).some(({ error }) => error?.includes('several values')),
    );
    expect(await shown(one.id)).toMatchObject({ state: 'failed', record_id: null });
  });

  it('is not taken for another that is read just before the path of its own is lost', async () => {
    for (const id of ['RA-1', 'RA-2']) put(id);
    let isLost = false;
    stage.upstream.faultOf = ({ path }) => {
      if (!path.includes('/risk-assessments/')) return null;
      if (isLost) return { fault: 'status', status: 404 };
      isLost = path.includes('/risk-assessments/RA-1');
      return null;
    };
    const one = event('risk.assessed', { first: { ref: 'RA-1' }, second: { ref: 'RA-2' } });
    await stage.deliver(one);
    const { state } = await stage.leapUntil('what became of it', async () => {
      const now = await shown(one.id);
      return now.state === 'processed' || now.error?.includes('the API shows no record') ? now : null;
    });
    expect(state).toBe('failed');
    stage.upstream.faultOf = () => null;
    await stage.leapUntil('what is found then', async () =>
      (await stage.gaps()).some(({ error }) => error?.includes('several values')),
    );
  });

  it('asks nothing twice of a known one where something is not understood anyway', async () => {
    put('RA-1');
    await stage.deliver(event('risk.assessed', { riskAssessmentId: 'RA-1' }));
    await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
    stage.upstream.faultOf = ({ path }) =>
      path.includes('/risk-assessments/RA-2') ? { fault: 'status', status: 200 } : null;
    const [first, second, third] = ['RA-2', 'RA-9', 'RA-1'].map((ref) => ({ ref }));
    await stage.deliver(event('risk.assessed', { first, second, third }));
    const gap = await stage.leapUntil(
      'what was found',
      async () =>
        (await stage.gaps()).find(({ error }) => error?.includes('could not be understood')) ?? null,
    );
    expect(gap.error).toMatch(/no id was taken: RA-2$/);
  });

  it('is found among values that the service will not hear of, and that is no trouble of the service', async () => {
    put('RA-1');
    stage.upstream.faultOf = ({ path }) =>
      /\/risk-assessments\/(?!RA-1)/.test(path) ? { fault: 'status', status: 400 } : null;
    const codes = { a: { code: 'c1' }, b: { code: 'c2' }, c: { code: 'c3' }, d: { code: 'c4' } };
    await stage.deliver(event('risk.assessed', { about: { code: 'RA-1' }, ...codes }));
    await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
    await settled('risk_assessment');
    const { upstream } = await stage.get<{ upstream: { last_error: string | null } }>('/api/status');
    expect(upstream.last_error).toBeNull();
    // As likely as four others: it tells people what to set, and later events are not read by it.
    expect((await status()).learned_pointers).toMatchObject([{ path: 'about.code', used: false }]);
  });

  it('opens no gap for what was asked for in vain', async () => {
    await stage.deliver(event('risk.assessed', { assessment_id: 'RA-9', code: 'zz' }));
    await stage.leapUntil('what was found', async () =>
      (await stage.gaps()).some(({ error }) => error?.includes('assessment_id = RA-9, code = zz')),
    );
    expect((await stage.gaps()).map(({ reason }) => reason)).toEqual(['no_record_id']);
    expect(requestsFor('/risk-assessments/RA-9') + requestsFor('/risk-assessments/zz')).toBe(2);
  });
});

describe('a risk event with another thing’s id where the pointers look', () => {
  beforeEach(() => begin());

  const about = (ref: string, id: unknown = 'ven-1', more: object = {}) =>
    event('risk.assessed', { id, assessment: { ref }, ...more });
  const openGaps = async () => (await stage.gaps()).filter(({ resolved_at }) => resolved_at === null);
  /** Leaps until the kind is in sync, and fails if it is so with anything missing. */
  const settledWhole = () => {
    // What the page says may be a second old.
    stage.clock.leap(1_000);
    return stage.leapUntil('in sync', async () => {
      if (verdictOf('risk_assessment') !== 'in_sync') return false;
      expect(stage.compare().differences).toEqual([]);
      return true;
    });
  };

  it.each<[string, unknown]>([
    ['the vendor’s', 'ven-1'],
    ['a number', 4711],
    ['an id of its own', 'row-1'],
  ])('%s, has its assessment mirrored, and a gap that names the setting', async (_, id) => {
    put('RA-1');
    const one = about('RA-1', id, { code: 'zz' });
    await stage.deliver(one);
    await settledWhole();
    const setting = expect.stringContaining('ID_POINTERS_RISK_ASSESSMENT=assessment.ref,');
    expect(await openGaps()).toMatchObject([{ reason: 'unresolved', record_id: String(id), error: setting }]);
    expect((await openGaps())[0]?.error).toContain('assessment.ref = RA-1');
    // Soon there was a record to compare with, so nobody was told that there is none.
    expect((await stage.gaps()).map(({ reason }) => reason)).not.toContain('unproven_id');
    expect((await status()).learned_pointers).toMatchObject([
      { path: 'assessment.ref', setting, used: false },
    ]);
    // What it names is a record; whether it is what the event is about nobody knows.
    expect(await shown(one.id)).toMatchObject({ state: 'processed', record_id: String(id) });
  });

  it('is no loss under green where another assessment can be read', async () => {
    put('RA-0');
    await stage.deliver(event('risk.assessed', { riskAssessmentId: 'RA-0' }));
    await settledWhole();
    for (const id of ['RA-1', 'RA-2']) put(id);
    // Two of them name the same thing, so that neither may be taken for settled by what is found in the other.
    await stage.deliver(about('RA-1'));
    await stage.deliver(about('RA-2'));
    await settledWhole();
    put('RA-1');
    await stage.deliver(about('RA-1'));
    await settledWhole();
  });

  it('is no loss under green where the path is lost just before its assessment is asked for, and another is known', async () => {
    put('RA-0');
    await stage.deliver(event('risk.assessed', { riskAssessmentId: 'RA-0' }));
    await settledWhole();
    put('RA-1');
    let isLost = false;
    stage.upstream.faultOf = ({ path }) => {
      isLost ||= path.includes('/risk-assessments/RA-1');
      return isLost && path.includes('/risk-assessments/') ? { fault: 'status', status: 404 } : null;
    };
    await stage.deliver(about('RA-1', 'row-1', { other: { ref: 'RA-0' } }));
    await stage.leapUntil('the path is lost', () => isLost);
    await stage.leapUntil('another read', () => requestsFor('/risk-assessments/RA-0') > 3);
    stage.upstream.faultOf = () => null;
    await settledWhole();
  });

  it('is looked at however many before it are about the same thing, and name what is gone', async () => {
    put('RA-1');
    for (const gone of ['RA-10', 'RA-11', 'RA-12', 'RA-13', 'RA-14']) await stage.deliver(about(gone));
    await stage.deliver(about('RA-1'));
    await settledWhole();
  });

  it.each([
    ['is answered in a way that nobody understands', 200],
    ['the service fails to answer', 500],
  ])('is looked at although those before it name what %s', async (_, status) => {
    put('RA-0');
    await stage.deliver(event('risk.assessed', { riskAssessmentId: 'RA-0' }));
    await settledWhole();
    put('RA-1');
    stage.upstream.faultOf = ({ path }) =>
      /risk-assessments\/RA-2\d/.test(path) ? { fault: 'status', status } : null;
    for (let number = 20; number < 26; number += 1) await stage.deliver(about(`RA-${number}`));
    await stage.deliver(about('RA-1'));
    await stage.leapUntil('RA-1', () => stage.compare().differences.length === 0);
    expect(verdictOf('risk_assessment')).not.toBe('in_sync');
    stage.upstream.faultOf = () => null;
    await settledWhole();
  });

  it('is not in sync if the event was trimmed before it could be searched, until a person says that nothing is missing', async () => {
    await stage.end();
    await begin({ RETENTION_BODY_DAYS: '1' });
    put('RA-1');
    // So that there is an assessment to compare with.
    await stage.deliver(event('risk.assessed', { riskId: 'RA-1' }));
    await settledWhole();
    const one = about('RA-2');
    stage.upstream.faultOf = ({ path }) =>
      path.includes('/risk-assessments/') ? { fault: 'status', status: 503 } : null;
    await stage.deliver(one);
    const isTrimmed = async () => (await stage.get<{ body: unknown }>(`/api/events/${one.id}`)).body === null;
    await stage.leapUntil('its body is trimmed', isTrimmed, 30 * 60_000);
    stage.upstream.faultOf = () => null;
    await stage.leapUntil('the gap', () => isOpen('trimmed_event'));
    expect(verdictOf('risk_assessment')).toBe('action_required');
    const gap = (await openGaps()).find(({ reason }) => reason === 'trimmed_event');
    await stage.post(`/api/gaps/${gap?.id}/resolve`);
    await settled('risk_assessment');
  });

  it('leaves no gap of what stands beside it once its own id is answered with a record', async () => {
    put('RA-0');
    await stage.deliver(event('risk.assessed', { riskAssessmentId: 'RA-0' }));
    await settledWhole();
    stage.upstream.faultOf = ({ path }) =>
      path.includes('/risk-assessments/code-1') ? { fault: 'status', status: 200 } : null;
    await stage.deliver(event('risk.assessed', { id: 'RA-1', code: 'code-1' }));
    const [gap] = await stage.leapUntil('the gap', async () => {
      const open = await openGaps();
      return open.length > 0 ? open : null;
    });
    expect(gap).toMatchObject({ reason: 'unreadable_answer', record_id: 'RA-1' });
    expect(gap?.error).toMatch(/^code-1 in its events: /);
    const asked = requestsFor('/risk-assessments/code-1');
    await stage.leapUntil('the next search', () => requestsFor('/risk-assessments/code-1') > asked);
    expect(await openGaps()).toMatchObject([{ id: gap?.id }]);
    put('RA-1');
    await stage.deliver(event('risk.assessed', { id: 'RA-1', code: 'code-1' }));
    await settledWhole();
    expect(await openGaps()).toEqual([]);
  });

  it.each([
    ['objects', { assessments: [{ ref: 'RA-1' }, { ref: 'RA-2' }] }],
    ['ids', { assessmentIds: ['RA-1', 'RA-2'] }],
  ])('has all mirrored that a list of %s in it names', async (_, more) => {
    put('RA-1');
    put('RA-2');
    await stage.deliver(event('risk.assessed', { id: 'ven-1', ...more }));
    await settledWhole();
    expect((await openGaps())[0]?.error).toContain('[0]');
    expect((await status()).learned_pointers).toEqual([]);
  });

  it.each<[string, object]>([
    ['a key that does not look like an id’s', { subject: 'RA-1' }],
    ['a key that no pointer can name', { 'assessment.ref': 'RA-1' }],
    ['what says that it is something else’s', { document: { id: 'RA-1' } }],
  ])('has its assessment mirrored that stands under %s', async (_, more) => {
    put('RA-0');
    await stage.deliver(event('risk.assessed', { riskAssessmentId: 'RA-0' }));
    await settledWhole();
    put('RA-1');
    await stage.deliver(event('risk.assessed', { id: 'row-1', ...more }));
    await settledWhole();
  });

  it('has all mirrored that it names, and is never in sync before, however many requests that takes', async () => {
    await stage.end();
    await begin({ COMPLIANCE_REQUESTS_PER_MINUTE: '60' });
    put('RA-0');
    await stage.deliver(event('risk.assessed', { riskAssessmentId: 'RA-0' }));
    await settledWhole();
    const assessmentIds = Array.from({ length: 40 }, (_, index) => `RA-${index + 10}`);
    for (const id of ['RA-10', 'RA-27', 'RA-49']) put(id);
    await stage.deliver(event('risk.assessed', { id: 'row-1', assessmentIds }));
    await settledWhole();
    expect(requestsFor('/risk-assessments/RA-48')).toBe(1);
  });

  it('costs one search: where it was found, later ones are looked at first', async () => {
    put('RA-1');
    await stage.deliver(about('RA-1', 'row-1', { number: 77 }));
    await settledWhole();
    for (const id of ['RA-2', 'RA-3']) put(id);
    expect(requestsFor('/risk-assessments/77')).toBe(1);
    await stage.deliver(about('RA-2', 'row-2', { number: 77 }));
    await stage.deliver(about('RA-3', 'row-3', { number: 78 }));
    await settledWhole();
    expect(requestsFor('/risk-assessments/77') + requestsFor('/risk-assessments/78')).toBe(1);
  });

  it('waits for a search that the service lets fail', async () => {
    put('RA-0');
    await stage.deliver(event('risk.assessed', { riskAssessmentId: 'RA-0' }));
    await settledWhole();
    put('RA-1');
    stage.upstream.faultOf = ({ path }) =>
      path.includes('/risk-assessments/RA-1') ? { fault: 'status', status: 503 } : null;
    await stage.deliver(about('RA-1'));
    for (const times of [1, 2, 3]) {
      await stage.leapUntil('the search', () => requestsFor('/risk-assessments/RA-1') >= times);
      expect(verdictOf('risk_assessment')).not.toBe('in_sync');
    }
    stage.upstream.faultOf = () => null;
    await settledWhole();
  });

  it('is settled by no answer that nobody understands, which is a gap until there is another', async () => {
    put('RA-0');
    await stage.deliver(event('risk.assessed', { riskAssessmentId: 'RA-0' }));
    await settledWhole();
    put('RA-1');
    stage.upstream.faultOf = ({ path }) =>
      path.includes('/risk-assessments/RA-1') ? { fault: 'status', status: 200 } : null;
    await stage.deliver(about('RA-1'));
    const gap = await stage.leapUntil(
      'the gap',
      async () => (await openGaps()).find(({ reason }) => reason === 'unreadable_answer') ?? null,
    );
    expect(gap).toMatchObject({ record_id: 'ven-1', error: expect.stringMatching(/^RA-1 in its events: /) });
    expect(verdictOf('risk_assessment')).toBe('action_required');
    stage.upstream.faultOf = () => null;
    await settledWhole();
    expect((await openGaps()).map(({ reason }) => reason)).toEqual(['unresolved']);
  });

  it('opens a gap of its own where what it names besides is known to be gone, and nothing else can be compared with, until something can', async () => {
    put('RA-1');
    await stage.deliver(event('risk.assessed', { riskAssessmentId: 'RA-1' }));
    await settledWhole();
    stage.upstream.records.remove('assessments', 'RA-1');
    await stage.post('/api/sync-runs', { kinds: ['risk_assessment'] });
    await stage.leapUntil('the approval', async () => (await approveDeletions(stage)) === 1);
    await settledWhole();
    await stage.deliver(about('RA-1', 'row-1'));
    await stage.leapUntil('the gap', () => isOpen('unproven_id'));
    put('RA-2');
    await stage.deliver(event('risk.assessed', { riskAssessmentId: 'RA-2' }));
    await settledWhole();
    expect((await openGaps()).map(({ reason }) => reason)).toEqual(['unresolved']);
  });

  it('mirrors all that it names where several are records', async () => {
    for (const id of ['RA-1', 'RA-2']) put(id);
    await stage.deliver(
      event('risk.assessed', { id: 'row-1', first: { ref: 'RA-1' }, second: { ref: 'RA-2' } }),
    );
    await settledWhole();
    expect((await openGaps())[0]?.error).toContain('first.ref = RA-1, second.ref = RA-2');
    expect((await status()).learned_pointers).toEqual([]);
  });

  it('keeps nothing from being in sync where it names no record at all', async () => {
    put('RA-0');
    await stage.deliver(event('risk.assessed', { riskAssessmentId: 'RA-0' }));
    await stage.deliver(about('gone', 'row-1'));
    await settledWhole();
    expect(await openGaps()).toMatchObject([
      {
        reason: 'unresolved',
        record_id: 'row-1',
        error: expect.stringContaining('ID_POINTERS_RISK_ASSESSMENT'),
      },
    ]);
  });

  it('is about its assessment once a setting says so, and nothing else is left of it', async () => {
    put('RA-1');
    const events = ['row-1', 'row-2'].map((id) => about('RA-1', id));
    for (const one of events) await stage.deliver(one);
    await settledWhole();
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
    await stage.leapUntil('no gap', async () => (await openGaps()).length === 0);
    await stage.leapUntil('in sync', () => verdictOf('risk_assessment') === 'in_sync');
    expect((await status()).kinds.find(({ kind }) => kind === 'risk_assessment')).toMatchObject({ known: 1 });
    await first.end();
  });
});

describe('a risk event with an id where the pointers look that no request can carry', () => {
  beforeEach(() => begin());

  it('is about the assessment that it names elsewhere', async () => {
    put('RA-1');
    const one = event('risk.assessed', { id: '..', assessment: { ref: 'RA-1' } });
    await stage.deliver(one);
    await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
    await settled('risk_assessment');
    expect(await shown(one.id)).toMatchObject({ state: 'processed', record_id: 'RA-1' });
  });

  it('is never in sync where it names no other, until a person has settled it', async () => {
    const one = event('risk.assessed', { id: '.' });
    await stage.deliver(one);
    await stage.leapUntil('the gap', () => isOpen('no_record_id'));
    await stage.post('/api/sync-runs');
    for (let leaps = 0; leaps < 10; leaps += 1) {
      stage.clock.leap(2_000);
      expect(verdictOf('risk_assessment')).not.toBe('in_sync');
    }
    await stage.post(`/api/events/${one.id}/discard`);
    await settled('risk_assessment');
  });
});

describe('a policy or a vendor whose id stands where no pointer looks', () => {
  beforeEach(() => begin());

  it.each([
    ['policy', 'policy.updated', { object: { key: 'pol-3' } }, 'object.key'],
    ['vendor', 'vendor.updated', { vendor: { ref: 'ven-3' } }, 'vendor.ref'],
  ])('%s: is known by what the list has shown', async (kind, type, data, path) => {
    const one = event(type, data);
    await stage.deliver(one);
    await stage.leapUntil('the record', async () => (await shown(one.id)).state === 'processed');
    expect((await status()).learned_pointers).toMatchObject([{ kind, path }]);
    await settled(kind);
    expect(stage.compare().differences).toEqual([]);
  });

  it('is not guessed where it speaks of a deletion and names several', async () => {
    const one = event('vendor.removed', { first: { ref: 'ven-0' }, second: { ref: 'gone' } });
    await stage.deliver(one);
    await stage.leapUntil('what was found', async () =>
      (await shown(one.id)).error?.includes('the deleted record'),
    );
    expect(await shown(one.id)).toMatchObject({ state: 'failed', record_id: null });
    const history = await stage.get<{ items: { operation: string }[] }>('/api/records/vendor/ven-0/history');
    expect(history.items.map(({ operation }) => operation)).toEqual(['insert']);
  });

  it('vendor: is made good by the whole list where nothing in it looks like an id', async () => {
    stage.upstream.records.put('vendors', { id: 'ven-new', name: 'New', status: 'active' });
    const one = event('vendor.added', { says: 'not which' });
    await stage.deliver(one);
    await stage.leapUntil('the gap', () => isOpen('no_record_id'));
    expect(verdictOf('vendor')).toBe('catching_up');
    await settled('vendor');
    expect(stage.compare().differences).toEqual([]);
  });

  it('vendor: a delete event is about what the API has shown, never about what still answers', async () => {
    stage.upstream.records.remove('vendors', 'ven-3');
    const one = event('vendor.removed', { vendor: { ref: 'ven-3' }, successor: { ref: 'ven-unheard-of' } });
    stage.upstream.records.put('vendors', { id: 'ven-unheard-of', name: 'Next', status: 'active' });
    stage.upstream.unlisted.add('ven-unheard-of');
    await stage.deliver(one);
    await stage.leapUntil('the record', async () => (await shown(one.id)).state === 'processed');
    expect((await shown(one.id)).record_id).toBe('ven-3');
    expect((await status()).learned_pointers).toEqual([]);
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
  /** Leaps until the kind is in sync, and fails if it is so with anything missing. */
  const settledWhole = () => {
    // What the page says may be a second old.
    stage.clock.leap(1_000);
    return stage.leapUntil('in sync', async () => {
      if (verdictOf('vendor') !== 'in_sync') return false;
      expect(stage.compare().differences).toEqual([]);
      return true;
    });
  };

  it('is no loss under green, the same id a second time neither', async () => {
    for (const id of ['ven-3', 'ven-4', 'ven-5']) {
      rename(id);
      await stage.deliver(about(id));
      await settledWhole();
    }
  });

  it('is no loss under green where no request can carry that id', async () => {
    for (const id of ['ven-3', 'ven-4']) {
      rename(id);
      await stage.deliver(about(id, 'vendor.updated', '..'));
      await settledWhole();
    }
  });

  it('is no loss under green where that id is a vendor’s, which the list alone can show', async () => {
    stage.upstream.records.put('vendors', { id: '..', name: 'Dots', status: 'active' });
    await stage.post('/api/sync-runs', { kinds: ['vendor'] });
    await stage.leapUntil('equality', () => stage.compare().differences.length === 0);
    for (const name of ['More dots', 'Still more']) {
      stage.upstream.records.put('vendors', { id: '..', name, status: 'active' });
      await stage.deliver(event('vendor.updated', { id: '..' }));
      await settledWhole();
    }
  });

  it('is no loss under green where it says that its vendor is gone', async () => {
    stage.upstream.records.remove('vendors', 'ven-9');
    await stage.deliver(about('ven-9', 'vendor.removed'));
    await settledWhole();
  });

  it('is no loss under green where a list was read too early to show what it says', async () => {
    const before = stage.upstream.records.find('vendors', 'ven-3')!;
    await stage.deliver(about('ven-3'));
    await stage.post('/api/sync-runs', { kind: 'vendor' });
    await stage.leapUntil('a list', () => requestsFor('/vendors?') > 2, 1);
    stage.upstream.records.put('vendors', { ...before, name: 'renamed, as it shows now' });
    await settledWhole();
  });

  it('is never in sync where the API answers for that id with a vendor of another one', async () => {
    rename('ven-3');
    stage.upstream.aliases.set('org-1', 'ven-3');
    await stage.deliver(about('ven-3'));
    await stage.leapUntil('the gap', () => isOpen('unreadable_answer'));
    for (let leaps = 0; leaps < 10; leaps += 1) {
      stage.clock.leap(2_000);
      expect(verdictOf('vendor')).not.toBe('in_sync');
    }
  });
});

it('a vendor’s event whose id nothing shows keeps nothing from being in sync where nothing lives', async () => {
  stage = await createStage();
  const { records } = stage.upstream;
  for (const resource of ['policies', 'vendors'] as const)
    for (const id of [...records.ids(resource)]) records.remove(resource, id);
  await stage.start();
  await settled('vendor');
  for (const type of ['vendor.removed', 'vendor.updated']) {
    await stage.deliver(event(type, { id: `gone after ${type}` }));
    stage.clock.leap(1_000);
    await settled('vendor');
  }
});

it('settings that name the place settle at the next start all that failed before it', async () => {
  await begin();
  const database = `file:${stage.database}`;
  // Nothing like an id in it, so that nobody can find it without the setting.
  put('RA-1');
  const one = event('risk.assessed', { about: { which: 'RA-1' } });
  await stage.deliver(one);
  await stage.leapUntil('the gap', () => isOpen('no_record_id'));
  await stage.leapUntil('what was found', async () =>
    (await shown(one.id)).error?.includes('nothing in its data looks like an id'),
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
    async () => (await other.get<Event>(`/api/events/${one.id}`)).state === 'processed',
  );
  await other.leapUntil('in sync', () => other.verdicts()['risk_assessment'] === 'in_sync');
  await other.end();
});

it('asks for no more than a part of the budget, however many events nobody can read', async () => {
  await begin({ COMPLIANCE_REQUESTS_PER_MINUTE: '40' });
  for (let index = 0; index < 30; index += 1) {
    await stage.deliver(event('risk.assessed', { assessment_id: `RA-${index}`, ref: `zz-${index}` }));
  }
  await stage.leapUntil('the gap', () => isOpen('no_record_id'));
  const from = requestsFor('/risk-assessments/');
  for (let leaps = 0; leaps < 60; leaps += 1) {
    stage.clock.leap(1_000);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  expect(requestsFor('/risk-assessments/') - from).toBeLessThanOrEqual(2 * (10 + 2));
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
    const gaps = (await stage.gaps()).filter((gap) => gap.resolved_at === null);
    return gaps.map(({ reason, record_id }) => `${reason} ${record_id}`);
  };

  it('alone is named by one gap until it can be read, and says nothing about the credentials', async () => {
    forbid((path) => path.endsWith('/vendors/ven-1'));
    await rename('ven-1', 'Hidden');
    await stage.leapUntil('the gap', () => isOpen('unreadable_answer'));
    for (let round = 0; round < 12; round += 1) {
      await rename('ven-2', `Seen ${round}`);
      stage.clock.leap(4_000);
      expect([await open(), verdictOf('vendor')]).toEqual([['unreadable_answer ven-1'], 'action_required']);
    }
    const gaps = await stage.gaps();
    expect(gaps.find(({ reason }) => reason === 'unreadable_answer')?.error).toMatch(
      /vendors\/ven-1: answered 403, while others of its kind can be read/,
    );
    expect(gaps.filter(({ reason }) => reason === 'credentials_rejected')).toEqual([]);
    forbid(() => false);
    await settled('vendor');
    expect(stage.compare().differences).toEqual([]);
  });

  it('as every other is, is a matter of the credentials', async () => {
    forbid((path) => path.includes('/vendors/'));
    await rename('ven-1', 'Hidden');
    await stage.leapUntil('the gap alone', async () => (await open()).join() === 'credentials_rejected null');
    forbid(() => false);
    await settled('vendor');
    expect(stage.compare().differences).toEqual([]);
  });

  it.each([
    ['nothing is forbidden any more', () => forbid(() => false)],
    [
      'one of those that are not forbidden is named',
      async () => {
        put('RA-1');
        await stage.post('/api/records/risk_assessment/refetch', { ids: ['RA-1'] });
      },
    ],
  ])('though nobody has made it, is a matter of the credentials, until %s', async (_, act) => {
    forbid((path) => path.includes('/risk-assessments/') && !path.endsWith('/RA-1'));
    await stage.post('/api/sync-runs');
    await stage.leapUntil('the gap', () => isOpen('credentials_rejected'));
    await stage.leapUntil('the verdict', () => verdictOf('risk_assessment') === 'action_required');
    await act();
    await settled('risk_assessment');
    expect(await isOpen('credentials_rejected')).toBe(false);
  });

  it('like some others, but not all, is named by a gap for each, and says nothing about the credentials', async () => {
    const hidden = ['RA-a', 'RA-b', 'RA-c', 'RA-d', 'RA-e', 'RA-f'];
    const assess = (id: string) => stage.deliver(event('risk.assessed', { riskAssessmentId: id }));
    for (const id of [...hidden, 'RA-x', 'RA-y', 'RA-z']) {
      put(id);
      await assess(id);
    }
    await settled('risk_assessment');
    forbid((path) => hidden.some((id) => path.endsWith(`/${id}`)));
    for (const id of hidden) await assess(id);
    const gaps = hidden.map((id) => `unreadable_answer ${id}`);
    await stage.leapUntil('the gaps', async () => (await open()).length === hidden.length);
    for (let round = 0; round < 12; round += 1) {
      await assess('RA-x');
      stage.clock.leap(4_000);
      expect((await open()).sort()).toEqual(gaps);
    }
    const rejected = (await stage.gaps()).filter(({ reason }) => reason === 'credentials_rejected');
    expect(rejected).toEqual([]);
    forbid(() => false);
    await settled('risk_assessment');
  });
});
