import type { EventType, Kind } from '../../src/compliance/kinds.ts';

/** One thing that can happen to a record: what it does to the status, and what the service says of it. */
export interface Step {
  kind: Kind;
  op: string;
  from: string;
  /** Null: the record is gone. */
  to: string | null;
  /** Null: the specification has no event that could tell. */
  event: EventType | null;
}

const steps = (kind: Kind, rows: readonly (readonly [string, string, string | null, EventType | null])[]) =>
  rows.map(([op, from, to, event]): Step => ({ kind, op, from, to, event }));

/**
 * Written by hand and not read off the sandbox's machines, so that a transition or an event that changed there
 * without anybody deciding so is found here.
 */
export const STEPS: readonly Step[] = [
  ...steps('policy', [
    ['update', 'draft', 'draft', 'policy.updated'],
    ['update', 'in_review', 'in_review', 'policy.updated'],
    ['update', 'approved', 'approved', 'policy.updated'],
    ['submit', 'draft', 'in_review', 'policy.updated'],
    ['approve', 'in_review', 'approved', 'policy.approved'],
    ['archive', 'approved', 'archived', 'policy.updated'],
    ['redraft', 'in_review', 'draft', 'policy.updated'],
    ['redraft', 'approved', 'draft', 'policy.updated'],
    ['redraft', 'archived', 'draft', 'policy.updated'],
    ['delete', 'draft', null, 'policy.deleted'],
    ['delete', 'in_review', null, 'policy.deleted'],
    ['delete', 'approved', null, 'policy.deleted'],
    ['delete', 'archived', null, 'policy.deleted'],
  ]),
  ...steps('risk_assessment', [
    ['update', 'identified', 'identified', null],
    ['update', 'assessed', 'assessed', null],
    ['update', 'mitigated', 'mitigated', null],
    ['update', 'escalated', 'escalated', null],
    ['assess', 'identified', 'assessed', 'risk.assessed'],
    ['assess', 'assessed', 'assessed', 'risk.assessed'],
    ['assess', 'mitigated', 'assessed', 'risk.assessed'],
    ['assess', 'escalated', 'assessed', 'risk.assessed'],
    ['mitigate', 'assessed', 'mitigated', 'risk.mitigated'],
    ['mitigate', 'escalated', 'mitigated', 'risk.mitigated'],
    ['escalate', 'identified', 'escalated', 'risk.escalated'],
    ['escalate', 'assessed', 'escalated', 'risk.escalated'],
    ['delete', 'identified', null, null],
    ['delete', 'assessed', null, null],
    ['delete', 'mitigated', null, null],
    ['delete', 'escalated', null, null],
  ]),
  ...steps('vendor', [
    ['update', 'prospective', 'prospective', 'vendor.updated'],
    ['update', 'under_review', 'under_review', 'vendor.updated'],
    ['update', 'approved', 'approved', 'vendor.updated'],
    ['update', 'suspended', 'suspended', 'vendor.updated'],
    ['review', 'prospective', 'under_review', 'vendor.updated'],
    ['review', 'approved', 'under_review', 'vendor.updated'],
    ['review', 'suspended', 'under_review', 'vendor.updated'],
    ['assess', 'prospective', 'approved', 'vendor.assessed'],
    ['assess', 'under_review', 'approved', 'vendor.assessed'],
    ['assess', 'approved', 'approved', 'vendor.assessed'],
    ['suspend', 'approved', 'suspended', 'vendor.updated'],
    ['delete', 'prospective', null, 'vendor.removed'],
    ['delete', 'under_review', null, 'vendor.removed'],
    ['delete', 'approved', null, 'vendor.removed'],
    ['delete', 'suspended', null, 'vendor.removed'],
  ]),
];

/** What a create begins with, and what is said of it. */
export const BIRTHS = {
  policy: { status: 'draft', event: 'policy.created' },
  risk_assessment: { status: 'identified', event: 'risk.identified' },
  vendor: { status: 'prospective', event: 'vendor.added' },
} as const satisfies Record<Kind, { status: string; event: EventType }>;

/** The shortest way from a new record to `status`. */
export function wayTo(kind: Kind, status: string): Step[] {
  const ways: Step[][] = [[]];
  for (const way of ways) {
    const at = way.at(-1)?.to ?? BIRTHS[kind].status;
    if (at === status) return way;
    const next = STEPS.filter((step) => step.kind === kind && step.from === at && step.to !== null);
    ways.push(...next.filter(({ to }) => to !== at && way.length < 4).map((step) => [...way, step]));
  }
  throw new Error(`no way to ${kind} ${status}`);
}
