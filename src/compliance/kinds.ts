/** The three kinds of record and the twelve event types. Source: sections 2 and 6 of the upstream's specification. */
export const KINDS = ['policy', 'risk_assessment', 'vendor'] as const;
export type Kind = (typeof KINDS)[number];

/** The kinds that have a list, and the kinds whose records have an address of their own. */
export type ListedKind = 'policy' | 'vendor';
export type FetchedKind = 'risk_assessment' | 'vendor';

/** For each family (the part before the dot of an event type) the kind of its records. */
export const FAMILIES = {
  policy: 'policy',
  risk: 'risk_assessment',
  vendor: 'vendor',
} as const satisfies Record<string, Kind>;

export const EVENT_TYPES = [
  'policy.created',
  'policy.updated',
  'policy.deleted',
  'policy.approved',
  'risk.identified',
  'risk.assessed',
  'risk.mitigated',
  'risk.escalated',
  'vendor.added',
  'vendor.updated',
  'vendor.assessed',
  'vendor.removed',
] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** The types that report a deletion. No risk event does; only a read shows that an assessment was deleted. */
export const DELETE_TYPES: ReadonlySet<string> = new Set<EventType>(['policy.deleted', 'vendor.removed']);

const KNOWN_TYPES: ReadonlySet<string> = new Set(EVENT_TYPES);

export function isKind(text: string): text is Kind {
  return (KINDS as readonly string[]).includes(text);
}

export function isKnownType(type: string): type is EventType {
  return KNOWN_TYPES.has(type);
}

/** Words for each kind in event types, as services write them. */
const WORDS: ReadonlyMap<string, Kind> = new Map([
  ...['policy', 'policies'].map((word) => [word, 'policy'] as const),
  ...['risk', 'risks', 'assessment', 'assessments'].map((word) => [word, 'risk_assessment'] as const),
  ...['vendor', 'vendors'].map((word) => [word, 'vendor'] as const),
]);

/**
 * The kind of an event type, known or not: the first of its words that names one, as in `vendors/updated`, `com.acme.risk.identified` or
 * `RISK_ASSESSMENT_CREATED`. Null: none does, or none says what happened.
 */
export function kindOfType(type: string): Kind | null {
  const words = type.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+/g)?.map((word) => word.toLowerCase()) ?? [];
  const kinds = words.flatMap((word) => WORDS.get(word) ?? []);
  return kinds.length === words.length ? null : (kinds[0] ?? null);
}
