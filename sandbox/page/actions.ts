import { randomInt } from 'node:crypto';
import { z } from 'zod';
import { KINDS } from '../../src/compliance/kinds.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import { changedFaults, faultsPatchSchema } from '../faults.ts';
import { decimal, tokenSeconds } from '../options.ts';
import { Problem, parseOrRefuse, unfit } from '../problems.ts';
import { seededRandom } from '../random.ts';
import { scenarioSchema } from '../scenarios.ts';
import { changedShapes } from '../shapes.ts';
import { drawShapes } from '../shapes-draw.ts';
import { timeScaleSchema } from '../time.ts';
import type { PageParts } from './model.ts';
import { shapesIn } from './shapes-form.ts';

/** Of numbers to begin a draw with. */
const MAX_DRAW = 1_000_000;

/** What the page's forms send: every value a text, a ticked box `on`, an empty field left out. */
const formSchema = z.discriminatedUnion('action', [
  z.object({
    action: z.literal('mutate'),
    kind: z.enum(KINDS),
    op: z.string(),
    id: z.string().optional(),
    name: z.string().optional(),
    fields: z.string().optional(),
    silent: z.literal('on').optional(),
  }),
  z.object({ action: z.literal('scenario'), name: z.string() }),
  z.object({ action: z.literal('time'), scale: decimal }),
  z.object({ action: z.literal('token-seconds'), seconds: decimal }),
  z.object({ action: z.literal('expire'), grant: z.string() }),
  z.object({ action: z.literal('revoke'), grant: z.string() }),
  z.looseObject({ action: z.literal('faults') }),
  z.looseObject({ action: z.literal('shapes') }),
  z.object({ action: z.enum(['draw-shapes', 'first-shapes']) }),
]);

/** Does what a form asks for. Throws a Problem that says why it cannot be. */
export async function act(parts: PageParts, form: Record<string, string>): Promise<void> {
  const filled = Object.fromEntries(Object.entries(form).filter(([, value]) => value !== ''));
  const asked = parseOrRefuse(formSchema, filled);
  const { settings } = parts;
  switch (asked.action) {
    case 'mutate': {
      const { kind, op, id, silent } = asked;
      const fields = { ...fieldsIn(asked.fields), ...(asked.name === undefined ? {} : { name: asked.name }) };
      parts.upstream.perform({ kind, op, id, fields }, { silent: silent !== undefined });
      return;
    }
    case 'scenario':
      await parts.scenarios.run(parseOrRefuse(scenarioSchema, { name: asked.name }));
      return;
    case 'time':
      parts.timers.scale = parseOrRefuse(timeScaleSchema, asked.scale);
      return;
    case 'token-seconds':
      parts.grants.accessTokenSeconds = parseOrRefuse(tokenSeconds, asked.seconds);
      return;
    case 'expire':
      if (!parts.grants.expire(asked.grant)) throw noSuchGrant();
      return;
    case 'revoke':
      if (!parts.grants.revoke(asked.grant)) throw noSuchGrant();
      return;
    case 'faults':
      settings.faults = changedFaults(settings.faults, parseOrRefuse(faultsPatchSchema, faultsIn(filled)));
      return;
    case 'shapes':
      // Of the form as it was sent: an empty field is an answer here.
      settings.shapes = changedShapes(settings.shapes, shapesIn(form));
      return;
    case 'draw-shapes':
      settings.shapes = changedShapes(parts.atStart.shapes, drawShapes(seededRandom(randomInt(MAX_DRAW))));
      return;
    case 'first-shapes':
      settings.shapes = parts.atStart.shapes;
  }
}

export function noSuchGrant(): Problem {
  return new Problem(404, 'not_found', 'There is no such grant.');
}

function fieldsIn(text: string | undefined): JsonObject {
  if (text === undefined) return {};
  let fields: unknown;
  try {
    fields = JSON.parse(text);
  } catch {
    throw unfit('Further fields: not JSON, such as {"owner": "Legal"}.');
  }
  if (typeof fields === 'object' && fields !== null && !Array.isArray(fields)) return fields as JsonObject;
  throw unfit('Further fields: a JSON object, such as {"owner": "Legal"}.');
}

const PERCENT_FIELDS = ['drop', 'duplicate', 'reorder', 'errorRate', 'hang', 'truncatedPages'] as const;

/** The form shows percents and seconds; the faults are in parts of one and milliseconds. */
function faultsIn(form: Record<string, string>): unknown {
  const number = (name: string, scale: number) => Number(form[name] ?? 0) * scale;
  return {
    ...Object.fromEntries(PERCENT_FIELDS.map((name) => [name, number(name, 0.01)])),
    delay: {
      probability: number('delay', 0.01),
      minMs: number('delayMin', 1000),
      maxMs: number('delayMax', 1000),
    },
    staleMs: number('stale', 1000),
    rateLimit: form.rateLimit === undefined ? null : Number(form.rateLimit),
    payloads: form.payloads,
  };
}
