import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { Cli } from '../../src/cli/cli.ts';
import { doctorCommand } from '../../src/cli/doctor.ts';
import { EXIT, exitCodeOf } from '../../src/cli/exit.ts';
import { statusCommand } from '../../src/cli/status.ts';
import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import { PROBLEM_REASONS, problemRule, VERDICTS, type Verdict, weigh } from '../../src/mirror/problems.ts';
import { newsOf } from '../../src/notify/decide.ts';
import { bodyOf } from '../../src/notify/message.ts';
import { explained } from '../../src/ops/problems.ts';
import type { KindStatus, ProblemReport } from '../../src/store/reports.ts';
import type { ProblemKey, ProblemReason } from '../../src/store/store.ts';
import { beat } from '../browser/scene.ts';
import { bearer, type Harness, NOTHING_SYNCED, OPERATE, opsHarness } from './harness.ts';

const HERE = 'http://127.0.0.1:8081';

let h: Harness;

/** A mirror in which all is well: in sync, and of risk assessments all that is known. */
beforeAll(async () => {
  h = await opsHarness();
  // The commands ask the app itself: what is said counts here, and not the way.
  vi.stubGlobal('fetch', (url: string | URL, init?: RequestInit) => h.app.request(String(url), init));
  for (const kind of KINDS) {
    await h.mirror(kind, `${kind}_1`, { name: 'One' });
    const run = await h.store.startSyncRun(kind, 'start', h.now());
    const listed = kind !== 'risk_assessment';
    const end = { outcome: 'complete', error: null, progress: NOTHING_SYNCED, listed } as const;
    await h.store.finishSyncRun(run.id, end, h.now());
    await h.store.noteAccess(kind, 'key', 'read', h.now());
  }
  await beat(h);
});
afterAll(async () => {
  vi.unstubAllGlobals();
  await h.close();
});

/** What each surface says now: the verdict of each kind, and the sentence of each open problem. */
interface Said {
  verdicts: Record<string, string>;
  sentences: string[];
}

const verdictsOf = (kinds: readonly Pick<KindStatus, 'kind' | 'verdict'>[]) =>
  Object.fromEntries(kinds.map(({ kind, verdict }) => [kind, verdict]));
const sorted = (words: readonly string[]) => [...new Set(words)].sort();
/** Which of all sentences stand in a text, however its lines are broken. */
const sentencesIn = (text: string) =>
  sorted(
    PROBLEM_REASONS.map((reason) => problemRule(reason).sentence).filter((sentence) =>
      text.replace(/\s+/g, ' ').includes(sentence),
    ),
  );

async function answered<T>(path: string, how: 'json' | 'text' = 'json'): Promise<T> {
  const response = await h.app.request(path, { headers: bearer(OPERATE) });
  expect(response.status, path).toBe(200);
  return (await response[how]()) as T;
}

async function ofCommand(make: (cli: Cli) => ReturnType<typeof statusCommand>, args: string[]) {
  let text = '';
  const screen = {
    write(more: string) {
      text += more;
    },
    isTerminal: true,
    columns: 80,
  };
  const cli = { env: { OPS_URL: HERE, OPS_TOKEN: OPERATE }, out: screen, err: screen };
  const code = await make(cli)
    .parseAsync(args, { from: 'user' })
    .then(() => EXIT.done, exitCodeOf);
  return { code, text };
}

async function surfaces(): Promise<{
  said: Record<string, Said>;
  codes: number[];
  worst: Verdict;
  open: ProblemReport[];
}> {
  // A snapshot stands for a second, or until somebody changes something.
  await h.app.request('/api/syncs', { method: 'POST', headers: bearer(OPERATE) });
  const { kinds } = await h.store.summary();
  const status = await answered<{ verdict: Verdict; kinds: KindStatus[]; problems: { sentence: string }[] }>(
    '/api/status',
  );
  const { items } = await answered<{ items: { sentence: string }[] }>('/api/problems');
  const page = await answered<string>('/', 'text');
  const metrics = await answered<string>('/metrics', 'text');
  const shown = await ofCommand(statusCommand, ['--check']);
  const doctor = await ofCommand(doctorCommand, []);
  const open = (await h.store.list('problems', { open: true, limit: 50 })).items;
  const told = newsOf(open.map(explained), new Set(), Date.now() + 10_001).map(({ id }) => {
    const problem = explained(open.find((row) => row.id === id)!);
    const to = { url: new URL('https://hooks.slack.com/x'), operators: HERE };
    return (bodyOf(to, { what: 'opened', problem, verdicts: verdictsOf(kinds) }) as { text: string }).text;
  });
  const wordsOf = new Map(VERDICTS.map((verdict) => [verdict.replaceAll('_', ' '), verdict as string]));
  const cards = KINDS.map((kind) => {
    const [, verdict] = new RegExp(`data-part="${kind}".*?<span class="state (\\w+)">`, 's').exec(page)!;
    return { kind, verdict: verdict as Verdict };
  });
  const scraped = [...metrics.matchAll(/^compliance_mirror_verdict\{kind="(\w+)",verdict="(\w+)"\} 1$/gm)];
  const reasons = [...metrics.matchAll(/^compliance_mirror_problems_open\{reason="(\w+)"\} [1-9]/gm)];
  const rows = [...shown.text.matchAll(/^(policy|risk_assessment|vendor) +(\w+) /gm)];
  const pairs = (found: readonly RegExpMatchArray[]) =>
    Object.fromEntries(found.map(([, kind, verdict]) => [kind!, verdict!]));
  const toldVerdicts = [...(told[0] ?? '').matchAll(/(policy|risk assessment|vendor): ([a-z ]+)/g)].map(
    ([, kind, words]) => [kind!.replace(' ', '_'), wordsOf.get(words!)!] as const,
  );
  return {
    open,
    worst: status.verdict,
    codes: [shown.code, doctor.code],
    said: {
      view: {
        verdicts: verdictsOf(kinds),
        sentences: sorted(open.map(({ reason }) => problemRule(reason).sentence)),
      },
      api: {
        verdicts: verdictsOf(status.kinds),
        sentences: sorted(status.problems.map(({ sentence }) => sentence)),
      },
      list: { verdicts: verdictsOf(status.kinds), sentences: sorted(items.map(({ sentence }) => sentence)) },
      page: { verdicts: verdictsOf(cards), sentences: sentencesIn(page) },
      status: { verdicts: pairs(rows), sentences: sentencesIn(shown.text) },
      doctor: { verdicts: verdictsOf(status.kinds), sentences: sentencesIn(doctor.text) },
      metrics: {
        verdicts: pairs(scraped),
        sentences: sorted(reasons.map(([, reason]) => problemRule(reason as ProblemReason).sentence)),
      },
      notification: {
        verdicts: told.length === 0 ? verdictsOf(kinds) : Object.fromEntries(toldVerdicts),
        sentences: sentencesIn(told.join('\n')),
      },
    },
  };
}

const BASE: Readonly<Record<Kind, Verdict>> = {
  policy: 'in_sync',
  risk_assessment: 'known_only',
  vendor: 'in_sync',
};

/** What a problem makes of each kind, by the table. */
function expected(problems: readonly ProblemKey[]): Record<string, string> {
  return Object.fromEntries(
    KINDS.map((kind) => {
      const verdicts = problems
        .filter((problem) => problem.kind === null || problem.kind === kind)
        .map(({ reason, kind, recordId }) =>
          weigh(reason, { kind, recordId, times: 1, hasList: kind !== 'risk_assessment' }),
        )
        .map(({ verdict }) => verdict);
      return [kind, VERDICTS.find((each) => [...verdicts, BASE[kind]].includes(each))!];
    }),
  );
}

async function look(problems: readonly ProblemKey[]): Promise<void> {
  for (const problem of problems) await h.store.openProblem(problem, null, h.now());
  const { said, codes, worst, open } = await surfaces();
  for (const problem of problems) await h.store.endProblem(problem, h.now());
  const verdicts = expected(problems);
  const sentences = sorted(problems.map(({ reason }) => problemRule(reason).sentence));
  expect(open, JSON.stringify(problems)).toHaveLength(problems.length);
  for (const [surface, says] of Object.entries(said))
    expect({ surface, ...says }, JSON.stringify(problems)).toEqual({ surface, verdicts, sentences });
  const all = Object.values(verdicts) as Verdict[];
  expect(worst).toBe(VERDICTS.find((verdict) => all.includes(verdict)));
  const isWell = all.every((verdict) => verdict === 'in_sync' || verdict === 'known_only');
  expect(codes).toEqual(isWell ? [0, 0] : [3, 3]);
}

const about = (reason: ProblemReason, kind: Kind | null): ProblemKey => ({ reason, kind, recordId: null });

test('all is well on every surface where no problem is open', async () => {
  await look([]);
});

test.each(PROBLEM_REASONS)('%s is the same on every surface, of all kinds', async (reason) => {
  await look([about(reason, null)]);
});

/** What a problem of a kind says does not hang on those of the others, so that each look shows three at once. */
const threes = <T>(all: readonly T[]) =>
  Array.from({ length: Math.ceil(all.length / KINDS.length) }, (_, nth) =>
    all.slice(nth * KINDS.length, (nth + 1) * KINDS.length),
  );

test.each(
  PROBLEM_REASONS.map(
    (reason, nth) => [reason, [...PROBLEM_REASONS.slice(nth), ...PROBLEM_REASONS]] as const,
  ),
)('%s is the same on every surface, of each kind, beside others of the other kinds', async (_, reasons) => {
  await look(KINDS.map((kind, nth) => about(reasons[nth]!, kind)));
});

const PAIRS = PROBLEM_REASONS.flatMap((one, nth) =>
  PROBLEM_REASONS.slice(0, nth).map((other) => [one, other] as const),
);

test.each(threes(PAIRS).map((pairs) => [pairs.map((pair) => pair.join(' and ')).join(', '), pairs] as const))(
  '%s are both on every surface, with the worse verdict',
  async (_, pairs) => {
    await look(pairs.flatMap((pair, nth) => pair.map((reason) => about(reason, KINDS[nth]!))));
  },
);
