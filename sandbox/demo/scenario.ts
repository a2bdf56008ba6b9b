import type { Kind } from '../../src/compliance/kinds.ts';

/** A story that the demo stages, and how it is told. */
export interface StagedStory {
  /** As the sandbox calls it. */
  name: string;
  /** Said as it happens, and in the table. */
  told: string;
  /** It happens to an existing record of this kind; null: it brings its own. */
  kind: Kind | null;
  /** The mirror must be seen to differ because of it. */
  differs: boolean;
}

export const STORIES: readonly StagedStory[] = [
  { name: 'lost-vendor-removal', told: 'lost delete of a vendor', kind: 'vendor', differs: true },
  { name: 'lost-policy-delete', told: 'lost delete of a policy', kind: 'policy', differs: true },
  { name: 'overtaken-update', told: 'overtaken update', kind: 'policy', differs: true },
  { name: 'lost-identification', told: 'assessment whose first event was lost', kind: null, differs: true },
  { name: 'unannounced-assessment', told: 'assessment never announced', kind: null, differs: false },
  { name: 'duplicate-delivery', told: 'delivery sent three times', kind: 'vendor', differs: false },
];

/** Changes a second. */
export const LIVELY_PER_SECOND = 4;

/** What befalls deliveries and the API's answers while the scenario runs. */
export const FAULTS = {
  drop: 0.1,
  duplicate: 0.1,
  delay: { probability: 0.25, minMs: 100, maxMs: 1500 },
  reorder: 0.1,
  staleMs: 400,
  errorRate: 0.02,
} as const;

/** The API answers plainly again; deliveries have ended by then. */
export const NO_FAULTS = {
  drop: 0,
  duplicate: 0,
  delay: { probability: 0, minMs: 0, maxMs: 0 },
  reorder: 0,
  staleMs: 0,
  errorRate: 0,
} as const;

/** The first stories are told this far into the run, the last this far before its end, as shares of it. */
const FIRST_AT = 0.1;
const LAST_AT = 0.8;

/** When each story is told, in milliseconds after the start of a run of `runMs`. */
export function schedule(runMs: number): { atMs: number; story: StagedStory }[] {
  const step = (LAST_AT - FIRST_AT) / (STORIES.length - 1);
  return STORIES.map((story, index) => ({ atMs: Math.round(runMs * (FIRST_AT + step * index)), story }));
}
