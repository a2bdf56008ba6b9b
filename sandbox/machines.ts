import type { EventType, Kind } from '../src/compliance/kinds.ts';

/**
 * What can happen to a record of each kind, in which status, and which event announces it. This is assumed: the
 * specification names only the events and the status `draft`, and no transitions.
 */
export interface Operation {
  /** Statuses in which it is possible; null: all, also unknown ones. */
  from: readonly string[] | null;
  /** The status afterwards; null: it stays the same. */
  to: string | null;
  effect: 'create' | 'change' | 'delete';
  /** Null: the specification has no event for it. */
  event: EventType | null;
  /** The policy's version is raised. */
  newVersion?: true;
}

interface Machine {
  create: Operation;
  delete: Operation;
  [operation: string]: Operation;
}

const creates = (to: string, event: EventType): Operation => ({ from: null, to, effect: 'create', event });
const deletes = (event: EventType | null): Operation => ({ from: null, to: null, effect: 'delete', event });
const changes = (from: Operation['from'], to: string | null, event: EventType | null): Operation => ({
  from,
  to,
  effect: 'change',
  event,
});

export const MACHINES: Readonly<Record<Kind, Machine>> = {
  policy: {
    create: creates('draft', 'policy.created'),
    // An archived policy shows what was once in force. It must become a draft again before it can change.
    update: changes(['draft', 'in_review', 'approved'], null, 'policy.updated'),
    submit: changes(['draft'], 'in_review', 'policy.updated'),
    approve: changes(['in_review'], 'approved', 'policy.approved'),
    archive: changes(['approved'], 'archived', 'policy.updated'),
    redraft: {
      ...changes(['in_review', 'approved', 'archived'], 'draft', 'policy.updated'),
      newVersion: true,
    },
    delete: deletes('policy.deleted'),
  },
  risk_assessment: {
    create: creates('identified', 'risk.identified'),
    update: changes(null, null, null),
    assess: changes(['identified', 'assessed', 'mitigated', 'escalated'], 'assessed', 'risk.assessed'),
    mitigate: changes(['assessed', 'escalated'], 'mitigated', 'risk.mitigated'),
    escalate: changes(['identified', 'assessed'], 'escalated', 'risk.escalated'),
    delete: deletes(null),
  },
  vendor: {
    create: creates('prospective', 'vendor.added'),
    update: changes(null, null, 'vendor.updated'),
    review: changes(['prospective', 'approved', 'suspended'], 'under_review', 'vendor.updated'),
    assess: changes(['prospective', 'under_review', 'approved'], 'approved', 'vendor.assessed'),
    suspend: changes(['approved'], 'suspended', 'vendor.updated'),
    delete: deletes('vendor.removed'),
  },
};

/** Null when the kind has no such operation. */
export function operationNamed(kind: Kind, name: string): Operation | null {
  return Object.hasOwn(MACHINES[kind], name) ? MACHINES[kind][name]! : null;
}

export function isAllowed(operation: Operation, status: unknown): boolean {
  return operation.from === null || operation.from.some((from) => from === status);
}

/** Raises the first number and sets the others to 0: `1.4` → `2.0`. A version that is not numbers and dots gets `.1`. */
export function nextVersion(version: string): string {
  const parts = version.split('.');
  if (!parts.every((part) => /^\d{1,9}$/.test(part))) return `${version}.1`;
  return [Number(parts[0]) + 1, ...parts.slice(1).map(() => 0)].join('.');
}
