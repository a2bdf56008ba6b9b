import { describe, expect, it } from 'vitest';
import { type AskPage, explore, findPaging } from '../../src/cli/setup/explore.ts';
import { UpstreamError } from '../../src/compliance/errors.ts';
import { DEFAULT_ID_POINTERS } from '../../src/compliance/pointers.ts';

const DEFAULTS = { pageParam: 'page', perPageParam: 'perPage', firstPage: 1, pageSize: 100 };
const IDS = ['a', 'b', 'c', 'd', 'e'];

interface Service {
  page?: string;
  size?: string;
  offset?: string;
  first?: number;
  /** Answers the page before the first as the first. */
  clamps?: true;
  /** Refuses what it does not know. */
  isStrict?: true;
  ids?: string[];
  /** Records on a page where nobody says. */
  usual?: number;
}

function asked({ page, size, offset, first = 1, clamps, isStrict, ids = IDS, usual = 100 }: Service) {
  let questions = 0;
  const ask: AskPage = async (query) => {
    questions += 1;
    if (isStrict && Object.keys(query).some((name) => ![page, size, offset].includes(name))) return null;
    const count = Number((size && query[size]) ?? usual);
    const number = Number((page && query[page]) ?? first);
    if (number < first && !clamps) return null;
    const from = (Math.max(number, first) - first) * count + Number((offset && query[offset]) ?? 0);
    return { ids: ids.slice(from, from + count), meta: {}, next: null };
  };
  return { ask, questions: () => questions };
}

async function found(service: Service, current = DEFAULTS) {
  const { ask, questions } = asked(service);
  const query = {
    [current.pageParam]: String(current.firstPage),
    [current.perPageParam]: String(current.pageSize),
  };
  const answered = await ask(query);
  const first = answered === null || answered.ids.length === 0 ? await ask({}) : answered;
  const result = await findPaging(ask, current, first?.ids.length ?? 0);
  return { ...result, questions: questions() };
}

describe('how a list is paged', () => {
  it.each<[string, Service, Record<string, string>]>([
    ['as by default', { page: 'page', size: 'perPage' }, {}],
    ['as by default, 0 being the first page too', { page: 'page', size: 'perPage', clamps: true }, {}],
    ['from 0', { page: 'page', size: 'perPage', first: 0 }, { COMPLIANCE_FIRST_PAGE: '0' }],
    [
      'with a size of another name',
      { page: 'page', size: 'per_page' },
      { COMPLIANCE_PER_PAGE_PARAM: 'per_page' },
    ],
    [
      'with a page of another name',
      { page: 'pageNumber', size: 'perPage' },
      { COMPLIANCE_PAGE_PARAM: 'pageNumber' },
    ],
    [
      'with both of other names from 0, refusing what it does not know',
      { page: 'page[number]', size: 'page[size]', first: 0, isStrict: true },
      {
        COMPLIANCE_PAGE_PARAM: 'page[number]',
        COMPLIANCE_PER_PAGE_PARAM: 'page[size]',
        COMPLIANCE_FIRST_PAGE: '0',
      },
    ],
    ['with a size of its own', { page: 'page', usual: 2 }, {}],
    ['with a size of its own, from 0', { page: 'page', usual: 2, first: 0 }, { COMPLIANCE_FIRST_PAGE: '0' }],
    [
      'by records left out',
      { size: 'limit', offset: 'offset' },
      { COMPLIANCE_PER_PAGE_PARAM: 'limit', COMPLIANCE_PAGE_PARAM: 'offset' },
    ],
    ['not at all', {}, {}],
    ['in a list of one, which tells nothing', { page: 'seite', size: 'zahl', ids: ['a'] }, {}],
  ])('%s', async (_, service, settings) => {
    const seen = await found(service);
    expect(seen).toMatchObject({ settings, isStrange: false });
    expect(seen.questions).toBeLessThan(40);
  });

  it('is told to be strange where no setting takes it', async () => {
    expect(await found({ size: 'limit' })).toMatchObject({ isStrange: true });
  });

  it('that is set already needs no other setting, and is told by a handful of questions', async () => {
    const current = { ...DEFAULTS, pageParam: 'p', perPageParam: 'size', firstPage: 0 };
    const seen = await found({ page: 'p', size: 'size', first: 0 }, current);
    expect(seen).toMatchObject({ settings: {} });
    expect(seen.questions).toBeLessThanOrEqual(5);
  });
});

describe('an API that is explored', () => {
  const lookAt = async (answers: { policies?: unknown; vendors?: unknown; risk?: unknown }) => {
    const whole = {
      policies: { data: [] },
      vendors: { data: [] },
      risk: { data: { id: 'risk-1' } },
      ...answers,
    };
    const request = async ({ path }: { path: string }) => {
      const name = /^\/(policies|vendors|risk)/.exec(path)![1] as keyof typeof whole;
      if (whole[name] instanceof Error) throw whole[name];
      return { value: whole[name] } as never;
    };
    const { says, warnings } = await explore({
      client: { request },
      config: { idPointers: DEFAULT_ID_POINTERS },
      paging: DEFAULTS,
      riskId: 'risk-1',
      signal: new AbortController().signal,
    });
    return [...says, ...warnings].join('\n');
  };
  const RISK = 'Risk assessments: GET /risk-assessments/{id}';

  it.each([
    ['an empty list', { vendors: { data: [] } }, 'Vendors: 0 on the first page; no record to look at'],
    [
      'an empty list that holds nothing but its total',
      { policies: { data: null, meta: { total: 0 } } },
      'Policies: 0 on the first page, 0 in all; no record to look at',
    ],
    [
      'rows without an id',
      { policies: { data: [{ name: 'One' }, { name: 'One' }] } },
      'no field was found that has another id for each record; set ID_POINTERS_POLICY by hand',
    ],
    ['a record that is another', { risk: { data: { id: 'risk-2' } } }, 'the answer has another id, risk-2'],
    ['a record without its id', { risk: { data: { name: 'R' } } }, `${RISK} answers, without an id in it`],
    ['no record', { risk: { data: 7 } }, `${RISK} for risk-1: \`data\` holds no object`],
    [
      'a record that is not there',
      { risk: new UpstreamError('unexpected_status', 'answered 404', { remedy: 'look' }) },
      `${RISK} for risk-1: answered 404 (look)`,
    ],
  ])('with %s is described', async (_, answers, line) => {
    expect(await lookAt(answers)).toContain(line);
  });

  it('with JSON that is no list is rejected with what is wrong with it', async () => {
    await expect(lookAt({ vendors: { ok: true } })).rejects.toThrow(
      'GET /vendors answers JSON that is no list: the answer holds no list',
    );
  });
});
