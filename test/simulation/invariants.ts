import { isDeepStrictEqual } from 'node:util';
import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import type { Evidence, Problem, Row } from './evidence.ts';
import type { Model, Version } from './model.ts';
import { isEventOfItsKind, type Sent, speaksOfItsRecord } from './sender.ts';

/**
 * What must hold after every commit. The model counts the versions of each record, and a verified row shows exactly
 * one of them: a row its content's, a tombstone that of some deletion.
 *
 * - I1: what was acknowledged stands in the file after each crash, and at the end.
 * - I2: at most one change per event id, and no event left unprocessed at the end.
 * - I3: a verified record shows at least the version that each accepted event about it announced. (It is verified
 *   only once every accepted event is covered, so all of them count.)
 * - I4: the versions that a verified record shows, one after another, never fall.
 *   Besides, no read undoes what was written to a row after that read began, verified or not, until the fourth in
 *   a row tries.
 * - I5: no tombstone on a record that never was deleted up to now.
 * - I8: no read takes a field, or the life of a record, back to a version before the one it showed last, verified or
 *   not: a follower of the feed sees no change undone and made again that was not. An event that comes late may, since
 *   nothing in it says what has been read meanwhile.
 *
 * - I9: no kind is in sync while an accepted event of it that names no record where the pointers look is neither shown,
 *   by a verified row that is at least as new as it, nor settled by a person. Asked where that is certain: not of kinds that
 *   the service has forgotten for a while, nor of lists that records came into or left since.
 *
 * - I10: no kind is in sync before a page or a record of it was shown, or, of assessments, of another kind; nor while the
 *   address of one of its records was last answered with what nobody understands. Not of a vendor that was gone just now and has a
 *   tombstone: where an event has said so, the list shows it.
 *
 * - I11: every open problem has a way out, which a person can take or the history takes in the quiet: none is open at its end.
 *
 * - I12: what the service held at the instant that a kind is complete through is in: no row shows a version before that,
 *   unless an event wrote it that is not read yet. Asked of clocks that nobody has set.
 *
 * A tombstone is taken for the earliest deletion that I4 allows, and must satisfy I3 as the latest one. A service that
 * forgets its records for a while shows them deleted; then only what the hold promises can be asked of the mirror:
 * never many at once.
 */
export interface Invariants {
  /** Something was committed; `readNumber` where it was a read: the counter as that began. Returns what is violated. */
  check(readNumber: number | null): string | null;
  /** By its body. */
  accepted(body: string): void;
  /** Assessments that an accepted event, a row read or a person has named to the mirror: nothing lists those. */
  named(assessments: Iterable<string>): void;
  /** Bodies of events that name no record where the pointers look, and were not settled by a person. */
  unread(): ReadonlySet<string>;
  /** I9, after any commit. `known`: where commits go on meanwhile, those that were known before it was asked what is in sync. */
  checkUnread(known?: ReadonlySet<string>): string | null;
  /** A page of the kind, or the address of one of its records, was answered. */
  answered(kind: Kind, id: string | null, says: 'shown' | 'missing' | 'garbled'): void;
  /** I10, after any commit. */
  checkAnswers(): string | null;
  /** I12. `epoch`: the wall clock as the world began. */
  checkThrough(epoch: number): string | null;
  /** Whoever was answered may have died before it was written down. */
  forgetAnswers(): void;
  /** A person has settled this event. */
  settledByPerson(id: string): void;
  /** Deliveries in quarantine that may be about an assessment and name none, and wait for a person; and that one has released them all. */
  quarantined(): number[];
  releasedByPerson(): void;
  /** A person has resolved the problem of this assessment, and with it what else was delivered about it under an id known before. */
  resolvedByPerson(recordId: string): void;
  /** Accepted events that nothing but a person can settle now. */
  hopeless(): string[];
  /** I1, of what was acknowledged to the sender. */
  checkStored(acknowledged: ReadonlySet<string>): string | null;
  checkEffects(): string | null;
  /** A full sync of the kind was completed: what was there from `from` on, in a list that stood still, is here. */
  checkWhole(kind: Kind, from: number): string | null;
  /** The service forgets, or remembers, all records of a kind. */
  forgetting(kind: Kind, forgets: boolean, now: number): void;
  /** The kind's answers lag behind its events from time to time, by more than SETTLE. */
  lagging(kind: Kind): void;
  /** I6: how the mirror differs from what is true now; empty when it does not. */
  differences(): string[];
  quiet(): {
    pending: number;
    /** Failed events that name no record: what is found of them is read, too. */
    unread: number;
    unverified: number;
    problems: Problem[];
    deletions: { ids: string[]; kind: Kind }[];
  };
}

/** A read is refused this often for what was written since it began. */
const REFUSALS = 3;

/** Of the fields, one that no record has. */
const ALIVE = '(alive)';

/** Payloads and records keep their ids in different ones. */
const ID_FIELDS: ReadonlySet<string> = new Set(['id', 'policyId', 'vendorId', 'riskAssessmentId']);

const fieldOf = (version: Version, field: string): unknown =>
  field === ALIVE ? version.content !== null : version.content?.[field];

/** Rules of the hold, as the design words them. */
const isMany = (count: number, live: number) =>
  (count > 2 && count > 0.2 * live) || (count >= 2 && count >= live);

export function createInvariants(options: {
  evidence: Evidence;
  model: Model;
  /** What the sender has sent with this body. */
  sentAs: (body: string) => Sent | undefined;
  now: () => number;
  /** How old what a full sync has shown may be at its end. */
  staleMs: number;
}): Invariants {
  const { model, evidence, staleMs } = options;
  const sentThus = (body: string, isThus: (sent: Sent) => boolean) => {
    const sent = options.sentAs(body);
    return sent !== undefined && isThus(sent) ? sent : null;
  };
  const eventOf = (body: string) => sentThus(body, speaksOfItsRecord);
  const countOf = (question: 'pending' | 'unverified') =>
    evidence.answer<{ count: number }>(question)[0]?.count ?? 0;
  const rowsNow = () => evidence.answer<Row>('rows');
  const isInSync = (kind: Kind) =>
    evidence.answer<{ kind: Kind }>('inSync').some((each) => each.kind === kind);

  const quarantined = () =>
    evidence.answer<{ id: number; eventId: string; recordId: string | null }>('quarantined');

  const namedAssessments = new Set<string>();
  /** The same beside another thing's id: one that is gone when the event is looked at need not be looked for again. */
  const namedBeside: { recordId: string; rev: number }[] = [];
  /** The newest version that an accepted event announced, by record. */
  const announced = new Map<string, number>();
  /** The version that the record last showed as verified. */
  const shown = new Map<string, number>();
  /** By record, the version that a lagging service last showed, and the one that events had announced by then. */
  const thirds = new Map<string, string>();
  const seen = new Map<string, { print: string; row: Row }>();
  /** The version that each event announces. */
  const revOfEvent = new Map<string, number>();
  /** By record and field, the version that its value is of; where several fit, the one that forgives most. */
  const versionOfField = new Map<string, Map<string, number>>();
  const forgets = new Set<Kind>();
  const rememberedAt = new Map<Kind, number>();
  /** Records that were forgotten at some time since they were last verified alive. */
  const forgotten = new Set<string>();
  const everForgot = new Set<Kind>();
  const everLagged = new Set<Kind>();
  const unread = new Map<string, Sent & { at: number; conflicts: boolean }>();
  const readable = new Set<Kind>();
  /** By record, since when. */
  const garbled = new Map<string, { kind: Kind; id: string; at: number }>();
  /** The content that an id came with first; with other content it is in quarantine. */
  const bodies = new Map<string, string>();
  const parsed = new Map<string, JsonObject>();
  const live: Record<Kind, number> = { policy: 0, risk_assessment: 0, vendor: 0 };

  function contentOf(text: string): JsonObject {
    let content = parsed.get(text);
    if (content === undefined) {
      content = JSON.parse(text) as JsonObject;
      parsed.set(text, content);
    }
    return content;
  }

  /** By the records that a list shows at this moment. */
  function assessmentsNamedNow(): string[] {
    return (['policy', 'vendor'] as const).flatMap((kind) =>
      model.ids(kind).flatMap((id) => assessmentNamedIn(model.history(kind, id).at(-1)!.content)),
    );
  }

  function deletions(kind: Kind, id: string): number[] {
    return model.history(kind, id).flatMap((version) => (version.content === null ? [version.rev] : []));
  }

  /** Records of the kind came or went, or may have been shown so, since then. */
  function movedSince(kind: Kind, from: number): boolean {
    return model.ids(kind).some((id) =>
      model.history(kind, id).some((version, rev, all) => {
        const wasAlive = rev > 0 && all[rev - 1]!.content !== null;
        return version.at > from && wasAlive !== (version.content !== null);
      }),
    );
  }

  function noteUnread(body: string): void {
    const sent = sentThus(body, isEventOfItsKind);
    if (sent === null || unread.has(body)) return;
    const { id, kind, recordId, rev, isBeside } = sent;
    const conflicts = (bodies.get(id) ?? body) !== body;
    if (!conflicts) bodies.set(id, body);
    const findable = sent.findable && !conflicts;
    unread.set(body, { ...sent, findable, at: options.now(), conflicts });
    if (findable && kind === 'risk_assessment' && eventOf(body) === null) {
      if (isBeside) namedBeside.push({ recordId, rev });
      else namedAssessments.add(recordId);
    }
  }

  /** What is wrong with one row; `lost` collects tombstones that only a forgetful service explains. */
  function checkRow(row: Row, lost: Row[]): string | null {
    const key = `${row.kind} ${row.id}`;
    const { kind, id } = row;
    if ((row.unverified_since === null) !== (row.state_unverified === null)) {
      return `I3: ${key}: the row says unverified since ${row.unverified_since}, its state ${row.state_unverified}`;
    }
    const verified = row.unverified_since === null;
    const before = shown.get(key) ?? -1;
    const least = announced.get(key) ?? -1;
    if (row.deleted_at !== null) {
      const gone = deletions(kind, id);
      const explained = forgets.has(kind) || forgotten.has(key);
      if (gone.length === 0 && !explained) return `I5: ${key} is shown deleted and never was`;
      if (!verified) return null;
      const earliest = gone.find((rev) => rev >= before);
      if (earliest === undefined || ((gone.at(-1) ?? -1) < least && !everLagged.has(kind))) {
        if (explained) lost.push(row);
        else if (earliest === undefined)
          return `I4: ${key} showed version ${before}, and is now shown deleted`;
        else return `I3: ${key} is verified as deleted, and an accepted event announced version ${least}`;
        return null;
      }
      shown.set(key, Math.max(earliest, before));
      return null;
    }
    if (!verified) return null;
    const content = contentOf(row.data!);
    const rev = content['rev'] as number;
    const version = model.history(kind, id)[rev];
    if (version === undefined || !isDeepStrictEqual(version.content, content)) {
      return `I3: ${key} is verified and shows what never was: ${row.data}`;
    }
    if (rev < before) return `I4: ${key} showed version ${before} as verified, and now ${rev}`;
    // Behind a lag a third state counts at once, and need not be the newest. It then counts again until another event comes.
    const third = `${rev} of ${least}`;
    const isThird = everLagged.has(kind) && (rev > before || thirds.get(key) === third);
    if (isThird) thirds.set(key, third);
    if (rev < least && !isThird)
      return `I3: ${key} is verified at version ${rev}, and an accepted event announced ${least}`;
    shown.set(key, rev);
    if (!forgets.has(kind)) forgotten.delete(key);
    return null;
  }

  function undone(key: string, row: Row, last: Row | undefined, readNumber: number | null): string | null {
    if (last === undefined || readNumber === null || last.write <= readNumber) return null;
    if (last.refusals >= REFUSALS || (row.data === last.data && row.deleted_at === last.deleted_at))
      return null;
    return `I4: ${key} was changed by a read that began at ${readNumber}, before its write ${last.write}`;
  }

  function takenBack(key: string, row: Row, last: Row | undefined): string | null {
    if (last !== undefined && last.data === row.data && last.deleted_at === row.deleted_at) return null;
    const { kind, id } = row;
    if (everLagged.has(kind)) return null;
    const history = model.history(kind, id);
    const versions = versionOfField.get(key) ?? new Map<string, number>();
    versionOfField.set(key, versions);
    const isEvent = row.cause?.startsWith('event:') === true;
    const announcedRev = isEvent ? (revOfEvent.get(row.cause!.slice('event:'.length)) ?? 0) : 0;
    const [before, after] = [fieldsOf(last), fieldsOf(row)];
    for (const field of new Set([...before.keys(), ...after.keys()])) {
      const value = after.get(field);
      if (last !== undefined && isDeepStrictEqual(before.get(field), value)) continue;
      const shows = (version: Version) => isDeepStrictEqual(fieldOf(version, field), value);
      const least = versions.get(field) ?? 0;
      const fitting = isEvent
        ? history.findLast((version) => version.rev <= announcedRev && shows(version))
        : history.find((version) => version.rev >= least && shows(version));
      if (fitting !== undefined) versions.set(field, fitting.rev);
      else if (isEvent) versions.set(field, 0);
      // Deletions have an invariant of their own: I5.
      else if (field !== ALIVE || row.deleted_at === null) {
        return `I8: ${key} showed ${field} of version ${least}, and a read took it back to ${JSON.stringify(value)}`;
      }
    }
    return null;
  }

  function fieldsOf(row: Row | undefined): Map<string, unknown> {
    if (row === undefined) return new Map();
    const fields = Object.entries(contentOf(row.data!)).filter(([field]) => !ID_FIELDS.has(field));
    return new Map([...fields, [ALIVE, row.deleted_at === null]]);
  }

  return {
    check(readNumber) {
      const lost: Row[] = [];
      const before = { ...live };
      for (const kind of KINDS) live[kind] = 0;
      for (const row of rowsNow()) {
        if (row.deleted_at === null) live[row.kind] += 1;
        const key = `${row.kind} ${row.id}`;
        const print = `${row.deleted_at} ${row.unverified_since} ${row.state_unverified} ${announced.get(key)} ${row.data}`;
        const last = seen.get(key);
        seen.set(key, { print, row });
        if (last?.print === print) continue;
        const violation =
          checkRow(row, last?.row.deleted_at === null ? lost : []) ??
          undone(key, row, last?.row, readNumber) ??
          takenBack(key, row, last?.row);
        if (violation !== null) return violation;
      }
      for (const kind of KINDS) {
        const count = lost.filter((row) => row.kind === kind).length;
        if (isMany(count, before[kind]))
          return `I5: ${count} of ${before[kind]} ${kind} deleted at once, and none of them was`;
      }
      return null;
    },

    accepted(body) {
      const about = eventOf(body);
      noteUnread(body);
      if (about === null) return;
      const key = `${about.kind} ${about.recordId}`;
      announced.set(key, Math.max(about.rev, announced.get(key) ?? -1));
      // Of two that share an id the first is stored.
      if (!revOfEvent.has(about.id)) revOfEvent.set(about.id, about.rev);
    },

    unread: () => new Set(unread.keys()),

    checkUnread(known) {
      for (const [body, { id, kind, recordId, rev, at, findable }] of unread) {
        if (everForgot.has(kind) || !model.alive(kind, recordId)) continue;
        // A list that is complete settles what names no record, and the end of one that was never shown, also if it is behind the events.
        const isOfNothing = !findable || model.history(kind, recordId)[rev]!.content === null;
        if (everLagged.has(kind) && kind !== 'risk_assessment' && isOfNothing) continue;
        // Behind a lag any state of it that was not confirmed before counts at once.
        if ((shown.get(`${kind} ${recordId}`) ?? -1) >= (everLagged.has(kind) ? 0 : rev)) continue;
        if (known !== undefined && (!known.has(body) || movedSince(kind, at))) continue;
        if (kind !== 'risk_assessment' && movedSince(kind, at)) continue;
        // Gone since, it could be settled by that; a later life is another matter.
        if (model.history(kind, recordId).some((later) => later.rev > rev && later.content === null))
          continue;
        if (!isInSync(kind)) continue;
        return `I9: ${kind} is in sync, and ${id} about ${recordId}, version ${rev}, was neither understood nor settled`;
      }
      return null;
    },

    answered(kind, id, says) {
      if (says === 'shown') readable.add(kind);
      if (id === null) return;
      if (says === 'garbled') garbled.set(`${kind} ${id}`, { kind, id, at: options.now() });
      else garbled.delete(`${kind} ${id}`);
    },

    checkAnswers() {
      for (const kind of KINDS) {
        const isReadable = readable.has(kind) || (kind === 'risk_assessment' && readable.size > 0);
        if (!isReadable && isInSync(kind)) return `I10: ${kind} is in sync, and nothing was ever read`;
      }
      for (const [record, { kind, id, at }] of garbled) {
        // What was answered at this very instant may be written down by the next commit.
        if (at === options.now() || !isInSync(kind)) continue;
        const isBuried = (row: Row) => row.kind === kind && row.id === id && row.deleted_at !== null;
        const wasGone =
          model.shown(kind, id, at - staleMs) === null ||
          model.history(kind, id).some((version) => version.content === null && version.at > at - staleMs);
        if (kind !== 'vendor' || !wasGone || !rowsNow().some(isBuried))
          return `I10: ${kind} is in sync, and nobody understands what ${record} is answered with`;
      }
      return null;
    },

    checkThrough(epoch) {
      for (const { kind, instant } of evidence.answer<{ kind: Kind; instant: string }>('through')) {
        if (everForgot.has(kind) || everLagged.has(kind)) continue;
        const through = Date.parse(instant) - epoch;
        for (const row of rowsNow()) {
          // A read that follows keeps what an event has just shown.
          const isOfEvent = row.cause?.startsWith('event:') === true || row.shown !== null;
          const isProvisional = row.unverified_since !== null && isOfEvent;
          if (row.kind !== kind || isProvisional) continue;
          const history = model.history(kind, row.id);
          const held = history.findLast((version) => version.at <= through);
          if (held === undefined || held.content === null) continue;
          const content = contentOf(row.data!);
          const rev =
            row.deleted_at === null ? (content['rev'] as number) : (deletions(kind, row.id).at(-1) ?? -1);
          // Fields that events have shown stand among those that were read.
          const isMixed = row.deleted_at === null && !isDeepStrictEqual(history[rev]?.content, content);
          if (rev < held.rev && !isMixed)
            return `I12: ${kind} is complete through ${through}, and ${row.id} shows version ${rev} of ${held.rev}`;
        }
      }
      return null;
    },

    forgetAnswers() {
      garbled.clear();
    },

    settledByPerson(id) {
      for (const [body, about] of unread) if (about.id === id) unread.delete(body);
    },

    hopeless() {
      const failed = evidence.answer<{ id: string }>('unread').map(({ id }) => id);
      const open = evidence.answer<Problem>('problems').filter(({ reason }) => reason === 'unknown_record');
      return failed.filter((id) => {
        const about = [...unread.values()].find((one) => one.id === id && !one.conflicts);
        if (about === undefined || !about.findable || !model.alive(about.kind, about.recordId)) return true;
        // A list has read what it was about, whatever that is.
        return !open.some(({ kind, recordId }) => kind === about.kind && recordId === null);
      });
    },

    quarantined: () => quarantined().flatMap(({ id, recordId }) => (recordId === null ? id : [])),

    releasedByPerson() {
      for (const [body, about] of unread) if (about.conflicts) unread.delete(body);
    },

    resolvedByPerson(recordId) {
      const ids = new Set(quarantined().flatMap((one) => (one.recordId === recordId ? one.eventId : [])));
      for (const [body, about] of unread) if (about.conflicts && ids.has(about.id)) unread.delete(body);
    },

    named(assessments) {
      for (const id of assessments) namedAssessments.add(id);
    },

    checkStored(acknowledged) {
      const stored = new Set(evidence.answer<{ id: string }>('stored').map(({ id }) => id));
      for (const id of acknowledged) {
        if (!stored.has(id)) return `I1: ${id} was acknowledged and is not stored`;
      }
      return null;
    },

    checkEffects() {
      const [first] = evidence.answer<{ cause: string; count: number }>('twice');
      if (first !== undefined) return `I2: ${first.cause} made ${first.count} changes`;
      return null;
    },

    checkWhole(kind, from) {
      if (
        kind === 'risk_assessment' ||
        everLagged.has(kind) ||
        forgets.has(kind) ||
        (rememberedAt.get(kind) ?? from) > from
      )
        return null;
      const ids = model.ids(kind);
      if (movedSince(kind, from)) return null;
      const rows = new Set(rowsNow().flatMap((row) => (row.kind === kind ? [row.id] : [])));
      const missed = ids.filter((id) => model.alive(kind, id) && !rows.has(id));
      return missed.length === 0
        ? null
        : `I6: a complete full sync of ${kind} has missed ${missed.join(', ')}`;
    },

    lagging(kind) {
      everLagged.add(kind);
    },

    forgetting(kind, does, now) {
      rememberedAt.set(kind, now);
      if (does) everForgot.add(kind);
      if (does) forgets.add(kind);
      else forgets.delete(kind);
      for (const id of model.ids(kind)) forgotten.add(`${kind} ${id}`);
    },

    differences() {
      const found: string[] = [];
      const rows = new Map(rowsNow().map((row) => [`${row.kind} ${row.id}`, row]));
      // From what was said to the mirror, never from what it took in: an id that it lost must be missed here.
      const beside = namedBeside.filter(({ recordId, rev }) =>
        model.history('risk_assessment', recordId).every((one) => one.rev <= rev || one.content !== null),
      );
      const discoverable = new Set([
        ...[...namedAssessments, ...assessmentsNamedNow()],
        ...beside.map(({ recordId }) => recordId),
      ]);
      for (const kind of KINDS) {
        for (const id of model.ids(kind)) {
          const key = `${kind} ${id}`;
          if (kind === 'risk_assessment' && !discoverable.has(id) && !rows.has(key)) continue;
          const truth = model.history(kind, id).at(-1)!.content;
          const row = rows.get(key);
          rows.delete(key);
          if (truth === null) {
            if (row !== undefined && row.deleted_at === null)
              found.push(`${key} is gone, and shown as ${row.data}`);
            if (row !== undefined && row.unverified_since !== null)
              found.push(`${key} is an unverified tombstone`);
          } else if (row === undefined) found.push(`${key} is missing`);
          else if (row.deleted_at !== null) found.push(`${key} lives, and is shown deleted`);
          else if (row.unverified_since !== null) found.push(`${key} is unverified`);
          else if (!isDeepStrictEqual(contentOf(row.data!), truth)) {
            found.push(`${key} is ${JSON.stringify(truth)}, and shown as ${row.data}`);
          }
        }
      }
      for (const [key, row] of rows) if (row.deleted_at === null) found.push(`${key} is shown and never was`);
      return found;
    },

    quiet() {
      const byKind = Map.groupBy(
        evidence.answer<{ kind: Kind; id: string }>('deletions'),
        ({ kind }) => kind,
      );
      return {
        pending: countOf('pending'),
        unread: evidence.answer('unread').length,
        unverified: countOf('unverified'),
        problems: evidence.answer<Problem>('problems'),
        deletions: [...byKind].map(([kind, some]) => ({ kind, ids: some.map(({ id }) => id) })),
      };
    },
  };
}

/** The assessment that a policy or a vendor refers to, in a row as in a payload. */
export function assessmentNamedIn(content: JsonObject | null): string[] {
  const id = content?.['riskAssessmentId'];
  return typeof id === 'string' ? [id] : [];
}
