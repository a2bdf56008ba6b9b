import { isDeepStrictEqual } from 'node:util';
import { crc32 } from 'node:zlib';
import { idCandidatesIn } from '../compliance/candidates.ts';
import type { Page } from '../compliance/client.ts';
import type { ListedKind } from '../compliance/kinds.ts';
import {
  type IdPointers,
  isMarkedDeleted,
  type JsonObject,
  pointersSettingOf,
  recordIdIn,
  whyNoId,
} from '../compliance/pointers.ts';
import { MirrorError } from '../platform/errors.ts';
import type { ReadObject } from '../store/store.ts';

/** A page of which nobody can tell whose rows these are. */
export const malformed = (text: string) => new MirrorError('malformed_page', text);

interface Rows {
  objects: ReadObject[];
  /** Ids of rows that say that their records are deleted. */
  gone: string[];
  /** The first row without a usable id, counted from 1. */
  other: { row: number; why: string } | null;
}

/** The rows of a page with their ids. Throws `malformed_page` if no row has one, or two that differ have the same. Pure. */
export function rowsOf(
  kind: ListedKind,
  { objects: page, unusable, ended }: Pick<Page, 'objects' | 'unusable' | 'ended'>,
  pointers: IdPointers,
): Rows {
  const rows = new Map<string, JsonObject>();
  const objects: ReadObject[] = [];
  const gone: string[] = [];
  let other: Rows['other'] = null;
  for (const [index, data] of page.entries()) {
    const id = recordIdIn(data, kind, pointers);
    if (id === null) {
      other ??= { row: index + 1, why: unusable.get(index) ?? whyNoId(data, kind, pointers) };
      continue;
    }
    const same = rows.get(id);
    // Otherwise one row would silently overwrite the other.
    if (same !== undefined && !isDeepStrictEqual(same, data)) {
      throw malformed(
        `two different rows of one page have the id ${JSON.stringify(id)}, so it is not the id of a ${kind}; ${whereIdsMayBe(kind, page, pointers)}`,
      );
    }
    rows.set(id, data);
    if (isMarkedDeleted(data, pointers, ended.wall)) gone.push(id);
    else objects.push({ id, json: JSON.stringify(data) });
  }
  if (other !== null && objects.length + gone.length === 0) {
    throw malformed(`a ${kind} in the list ${other.why}; ${whereIdsMayBe(kind, page, pointers)}`);
  }
  return { objects, gone, other };
}

/** For rows in which the pointers find no id: the likeliest path at which every row has a value of its own. */
function whereIdsMayBe(kind: ListedKind, objects: readonly JsonObject[], pointers: IdPointers): string {
  const idsIn = objects.map(
    (object) => new Map(idCandidatesIn(object, kind).map(({ path, id }) => [path, id])),
  );
  const path = [...(idsIn[0]?.keys() ?? [])].find(
    (each) =>
      idsIn.every((ids) => ids.has(each)) && new Set(idsIn.map((ids) => ids.get(each))).size === idsIn.length,
  );
  if (path === undefined) return `set ${pointersSettingOf(kind)} to where the service keeps it`;
  const others = pointers[kind].filter((pointer) => pointer !== path);
  return `each has a value of its own at ${path}: set ${pointersSettingOf(kind)}=${[path, ...others].join(',')}`;
}

export type Clashes = ReturnType<typeof createClashes>;

/**
 * Records of a list that are on several pages with different rows. A list that moves may show one before and after a change. A list that
 * shows the same two rows in two scans has two records with one id, and the second row would silently overwrite the first.
 *
 * Of each record a checksum of its first row is kept. Of two different rows, one pair in four thousand million has the same, and is not
 * noticed. SHA-1 took 49 MB for 500,000 records; this takes 15.
 */
export function createClashes(kind: ListedKind) {
  const rows = new Map<string, number>();
  const found = new Map<string, string>();
  return {
    found,
    note(objects: readonly ReadObject[]): void {
      for (const { id, json } of objects) {
        // As a signed number, which the engine keeps in the map itself.
        const row = crc32(json) | 0;
        const first = rows.get(id) ?? row;
        rows.set(id, first);
        if (first !== row) found.set(id, `${first} ${row}`);
      }
    },
    /** Throws `malformed_page` if the scan before has shown one of them in the same way. */
    compare(before: { found: ReadonlyMap<string, string> } | undefined): void {
      const id = [...found.keys()].find((each) => found.get(each) === before?.found.get(each));
      rows.clear();
      if (id === undefined) return;
      throw malformed(
        `two different rows of the list have the id ${JSON.stringify(id)}, so it is not the id of a ${kind}; set ${pointersSettingOf(kind)} to where the service keeps it`,
      );
    },
  };
}
