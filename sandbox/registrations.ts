import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { coverageOf, patternSelects, registrationRequestSchema } from '../src/compliance/registration.ts';
import { isHttpsOrLoopback } from '../src/platform/addresses.ts';
import { Problem } from './problems.ts';
import { newId } from './random.ts';

export interface Registration {
  id: string;
  url: string;
  events: readonly string[];
  description: string;
  secret: string;
  /** Set by a receiver's 410; nothing more is sent to it. */
  disabled: boolean;
}

/** Limits the work for one event. */
const MAX_REGISTRATIONS = 100;
const SECRET_BYTES = 32;

/** `secret` is an assumption: the specification does not say how the two sides agree on one. */
export const registrationBodySchema = registrationRequestSchema
  .extend({
    url: z.url().refine(isDeliverable, 'an https address, or http on loopback, without credentials in it'),
    events: z
      .array(
        z
          .string()
          .refine(
            (pattern) => coverageOf([pattern]).unmatched.length === 0,
            'one of the twelve event types, or policy.*, risk.* or vendor.*',
          ),
      )
      .min(1),
    secret: z.string().min(16).max(255).optional().meta({ description: 'Assumed; one is made without it.' }),
  })
  .meta({ id: 'WebhookRegistrationRequest' });

export class Registrations {
  readonly #registrations: Registration[] = [];
  readonly #defaultSecret: string | null;

  /** `defaultSecret` null: one is made for each registration. */
  constructor(defaultSecret: string | null) {
    this.#defaultSecret = defaultSecret;
  }

  add(request: z.infer<typeof registrationBodySchema>): Registration {
    if (this.#registrations.length >= MAX_REGISTRATIONS) {
      throw new Problem(422, 'limit_reached', `There can be at most ${MAX_REGISTRATIONS} registrations.`);
    }
    const registration: Registration = {
      id: newId('webhook-'),
      url: request.url,
      events: request.events,
      description: request.description,
      secret: request.secret ?? this.#defaultSecret ?? `whsec_${randomBytes(SECRET_BYTES).toString('hex')}`,
      disabled: false,
    };
    this.#registrations.push(registration);
    return registration;
  }

  subscribedTo(type: string): Registration[] {
    return this.#registrations.filter(
      ({ disabled, events }) => !disabled && events.some((pattern) => patternSelects(pattern, type)),
    );
  }

  /** Without their secrets. */
  list(): Omit<Registration, 'secret'>[] {
    return this.#registrations.map(({ secret: _, ...shown }) => shown);
  }
}

function isDeliverable(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && url.username + url.password === '' && isHttpsOrLoopback(url);
}
