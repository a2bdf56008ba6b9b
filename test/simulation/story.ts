import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import { assessmentNamedIn, type Invariants } from './invariants.ts';
import type { Model } from './model.ts';
import type { Operation, Settings } from './plan.ts';
import type { Sender } from './sender.ts';
import type { World } from './time.ts';
import type { Weather } from './upstream.ts';

/** What every history has, whatever mirrors it: an upstream that changes and fails, a verdict, and a quiet end. */

/** A list that grows and shifts while it is read may have some pages more than it has records for. */
const PAGES_TOO_MANY = 10;

export interface Verdict {
  /** Null: every invariant held. */
  failure(): string | null;
  /** The first one counts. */
  fail(what: string): void;
  demand(violation: string | null): void;
}

export function createVerdict(trace: (line: string) => void): Verdict {
  let failure: string | null = null;
  const fail = (what: string) => {
    if (failure !== null) return;
    failure = what;
    trace(`FAILURE ${what}`);
  };
  return {
    failure: () => failure,
    fail,
    demand(violation) {
      if (violation !== null) fail(violation);
    },
  };
}

type OfUpstream = Extract<Operation, { do: 'write' | 'delete' | 'fault' }>;

/** What the plan does to the upstream, and what that says of it. */
export function performOnUpstream(
  operation: OfUpstream,
  scene: {
    world: World;
    model: Model;
    weather: Weather;
    invariants: Invariants;
    sender: Sender;
    trace: (line: string) => void;
  },
): void {
  const { world, model, weather, invariants, sender, trace } = scene;
  if (operation.do === 'fault') {
    const { fault, forMs } = operation;
    weather.active.add(fault);
    if (fault.fault === 'forgetful') invariants.forgetting(fault.kind, true, world.now());
    world.at(world.now() + forMs, null, () => {
      weather.active.delete(fault);
      if (fault.fault === 'forgetful') invariants.forgetting(fault.kind, false, world.now());
      trace(`end of ${fault.fault}`);
    });
    return;
  }
  const { kind, id, message } = operation;
  const last = model.history(kind, id).at(-1) ?? null;
  if (operation.do === 'delete' && !model.alive(kind, id)) return;
  const version = model.change(kind, id, world.now(), operation.do === 'write');
  if (message !== null) sender.announce(kind, id, version, last?.content ?? null, message);
}

/** Assessments that the mirror has heard of by what one verb was given. */
export function namedTo(verb: string, args: readonly unknown[]): string[] {
  if (verb === 'makeDue' && args[0] === 'risk_assessment') return args[1] as string[];
  if (verb !== 'applyReads') return [];
  const objects = args[1] as { id: string; data: JsonObject }[];
  return args[0] === 'risk_assessment'
    ? objects.map(({ id }) => id)
    : objects.flatMap(({ data }) => assessmentNamedIn(data));
}

/** Null, or the list scan that may never end. */
export function endlessScan(
  model: Model,
  settings: Settings,
  kind: 'policy' | 'vendor',
  page: number,
): string | null {
  const pages = Math.ceil(model.ids(kind).length / settings.pageSize);
  if (page <= pages + PAGES_TOO_MANY) return null;
  return `I6: a scan asks for page ${page} of ${kind}, which never had more than ${pages}, and may never end`;
}

/** What keeps the mirror from being in sync in the quiet; nothing, in the end. */
export function standingInQuiet(
  invariants: Invariants,
  { syncedSince, quietSince }: { syncedSince: ReadonlyMap<Kind, number>; quietSince: number },
): string[] {
  const state = invariants.quiet();
  return [
    ...invariants.differences(),
    ...KINDS.filter((kind) => (syncedSince.get(kind) ?? -1) < quietSince).map(
      (kind) => `no full sync of ${kind}`,
    ),
    ...(state.pending > 0 ? [`${state.pending} events pending`] : []),
    ...(state.unread > 0 ? [`${state.unread} events unread`] : []),
    ...(state.unverified > 0 ? [`${state.unverified} unverified`] : []),
    ...(state.deletions.length > 0 ? ['deletions pending'] : []),
    ...state.openGaps.map((gap) => `gap ${gap}`),
  ];
}

/** Pending deletions that nobody can doubt: who knows the upstream approves them. */
export const surelyGone = (invariants: Invariants, model: Model): number[] =>
  invariants
    .quiet()
    .deletions.filter((of) => of.ids.every((id) => !model.alive(of.kind, id)))
    .map((of) => of.syncRunId);
