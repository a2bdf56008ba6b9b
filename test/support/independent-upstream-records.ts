/** What the independent upstream holds: current records, and which ids there ever were. */

export type Resource = 'policies' | 'assessments' | 'vendors';

export interface UpstreamRecord {
  id: string;
  [field: string]: unknown;
}

export class Records {
  readonly #held: Record<Resource, Map<string, UpstreamRecord>> = {
    policies: new Map(),
    assessments: new Map(),
    vendors: new Map(),
  };
  /** Cached, because a page of 50,000 is asked for 500 times. */
  readonly #listed = new Map<Resource, UpstreamRecord[]>();

  /** A record that is new, or lives again, is the newest; one that changed stays where it was. */
  put(resource: Resource, record: UpstreamRecord): void {
    this.#held[resource].set(record.id, record);
    this.#listed.delete(resource);
  }

  remove(resource: Resource, id: string): boolean {
    this.#listed.delete(resource);
    return this.#held[resource].delete(id);
  }

  find(resource: Resource, id: string): UpstreamRecord | null {
    return this.#held[resource].get(id) ?? null;
  }

  ids(resource: Resource): string[] {
    return [...this.#held[resource].keys()];
  }

  all(resource: Resource): UpstreamRecord[] {
    return [...this.#held[resource].values()];
  }

  newestFirst(resource: Resource): UpstreamRecord[] {
    const known = this.#listed.get(resource);
    if (known !== undefined) return known;
    const list = this.all(resource).reverse();
    this.#listed.set(resource, list);
    return list;
  }
}

/** Records as such a service might hold them; the fields besides id, name and status are of its own devising. */
export function fill(records: Records, counts: Readonly<Record<Resource, number>>): void {
  for (let index = 0; index < counts.policies; index += 1) {
    const id = `pol-${index}`;
    records.put('policies', {
      id,
      name: `Policy ${index}`,
      version: '1.0',
      status: 'draft',
      owner: { team: index % 7 },
    });
  }
  for (let index = 0; index < counts.assessments; index += 1) {
    records.put('assessments', {
      id: `ra-${index}`,
      name: `Risk ${index}`,
      status: 'open',
      likelihood: index % 5,
    });
  }
  for (let index = 0; index < counts.vendors; index += 1) {
    records.put('vendors', {
      id: `ven-${index}`,
      name: `Vendor ${index}`,
      status: 'active',
      tags: ['a', String(index % 3)],
    });
  }
}
