import type { EventType, Kind } from '../src/compliance/kinds.ts';

/**
 * What can happen to a record of each kind, in which status, and what the service then announces. Assumed:
 * the specification names the events and the one status `draft`, no transitions.
 */
export interface Operation {
  /** Statuses it starts from; null: any, statuses that no machine knows included. */
  from: readonly string[] | null;
  /** The status it ends in; null: it stays. */
  to: string | null;
  effect: 'create' | 'change' | 'delete';
  /** Null: the specification has no event for it, so nobody is told. */
  event: EventType | null;
  /** The policy's version is raised. */
  newVersion?: true;
}

interface Machine {
  initial: string;
  operations: Readonly<Record<string, Operation>>;
}

export const MACHINES: Readonly<Record<Kind, Machine>> = {
  policy: {
    initial: 'draft',
    operations: {
      create: { from: null, to: 'draft', effect: 'create', event: 'policy.created' },
      // An archived policy is a record of what once held; it changes by becoming a draft again.
      update: {
        from: ['draft', 'in_review', 'approved'],
        to: null,
        effect: 'change',
        event: 'policy.updated',
      },
      submit: { from: ['draft'], to: 'in_review', effect: 'change', event: 'policy.updated' },
      approve: { from: ['in_review'], to: 'approved', effect: 'change', event: 'policy.approved' },
      archive: { from: ['approved'], to: 'archived', effect: 'change', event: 'policy.updated' },
      redraft: {
        from: ['in_review', 'approved', 'archived'],
        to: 'draft',
        effect: 'change',
        event: 'policy.updated',
        newVersion: true,
      },
      delete: { from: null, to: null, effect: 'delete', event: 'policy.deleted' },
    },
  },
  risk_assessment: {
    initial: 'identified',
    operations: {
      create: { from: null, to: 'identified', effect: 'create', event: 'risk.identified' },
      update: { from: null, to: null, effect: 'change', event: null },
      assess: {
        from: ['identified', 'assessed', 'mitigated', 'escalated'],
        to: 'assessed',
        effect: 'change',
        event: 'risk.assessed',
      },
      mitigate: {
        from: ['assessed', 'escalated'],
        to: 'mitigated',
        effect: 'change',
        event: 'risk.mitigated',
      },
      escalate: {
        from: ['identified', 'assessed'],
        to: 'escalated',
        effect: 'change',
        event: 'risk.escalated',
      },
      delete: { from: null, to: null, effect: 'delete', event: null },
    },
  },
  vendor: {
    initial: 'prospective',
    operations: {
      create: { from: null, to: 'prospective', effect: 'create', event: 'vendor.added' },
      update: { from: null, to: null, effect: 'change', event: 'vendor.updated' },
      review: {
        from: ['prospective', 'approved', 'suspended'],
        to: 'under_review',
        effect: 'change',
        event: 'vendor.updated',
      },
      assess: {
        from: ['prospective', 'under_review', 'approved'],
        to: 'approved',
        effect: 'change',
        event: 'vendor.assessed',
      },
      suspend: { from: ['approved'], to: 'suspended', effect: 'change', event: 'vendor.updated' },
      delete: { from: null, to: null, effect: 'delete', event: 'vendor.removed' },
    },
  },
};

/** Other words for create and delete, as the event types say them. */
const ALIASES: Readonly<Record<string, string>> = { identify: 'create', add: 'create', remove: 'delete' };

/** Null when the kind has no such operation. */
export function operationNamed(kind: Kind, name: string): Operation | null {
  const operations = MACHINES[kind].operations;
  const canonical = Object.hasOwn(ALIASES, name) ? ALIASES[name]! : name;
  return Object.hasOwn(operations, canonical) ? operations[canonical]! : null;
}

export function isAllowed(operation: Operation, status: unknown): boolean {
  return operation.from === null || operation.from.some((from) => from === status);
}

/** Raises the first number and starts the others again: `1.4` → `2.0`. What is not numbers and dots gets `.1`. */
export function nextVersion(version: string): string {
  const parts = version.split('.');
  if (!parts.every((part) => /^\d{1,9}$/.test(part))) return `${version}.1`;
  return [Number(parts[0]) + 1, ...parts.slice(1).map(() => 0)].join('.');
}
