import type { Attack } from './attack.ts';
import { BODY_ATTACKS } from './bodies.ts';
import { CONNECTION_ATTACKS } from './connections.ts';
import { FLOOD_ATTACKS } from './floods.ts';
import { HEADER_ATTACKS } from './headers.ts';
import { OPERATOR_ATTACKS } from './operators.ts';
import { SECRET_ATTACKS } from './secrets.ts';

/** By the name that the command line knows. */
export const ATTACKS: Readonly<Record<string, Attack>> = {
  ...SECRET_ATTACKS,
  ...BODY_ATTACKS,
  ...HEADER_ATTACKS,
  ...CONNECTION_ATTACKS,
  ...FLOOD_ATTACKS,
  ...OPERATOR_ATTACKS,
};
