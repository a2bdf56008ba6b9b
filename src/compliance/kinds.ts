/**
 * The words that everything else is built from: the three kinds of record, the twelve event types, and which
 * of them belong together. Source: sections 2 and 6 of the upstream's specification.
 */
export const KINDS = ['policy', 'risk_assessment', 'vendor'] as const;
export type Kind = (typeof KINDS)[number];

/** The kinds whose records can be listed, and those of which one can be fetched. */
export type ListedKind = 'policy' | 'vendor';
export type FetchedKind = 'risk_assessment' | 'vendor';

/** Families, the part before the dot of an event type, and the kind of record that each is about. */
export const FAMILIES = {
  policy: 'policy',
  risk: 'risk_assessment',
  vendor: 'vendor',
} as const satisfies Record<string, Kind>;
export type Family = keyof typeof FAMILIES;

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

/** The types that say a record is gone. No risk event does: only reading finds that an assessment was deleted. */
export const DELETE_TYPES: ReadonlySet<string> = new Set<EventType>(['policy.deleted', 'vendor.removed']);

const KNOWN_TYPES: ReadonlySet<string> = new Set(EVENT_TYPES);

export function isKind(text: string): text is Kind {
  return (KINDS as readonly string[]).includes(text);
}

export function isKnownType(type: string): type is EventType {
  return KNOWN_TYPES.has(type);
}

/** The kind that an event type is about, by its family, even if the type is unknown; null: so is the family. */
export function kindOfType(type: string): Kind | null {
  const family = type.slice(0, Math.max(0, type.indexOf('.')));
  return Object.hasOwn(FAMILIES, family) ? FAMILIES[family as Family] : null;
}
