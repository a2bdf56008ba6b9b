/**
 * The compiler's API of TypeScript 5, bundled in this package: the generator of client types builds its output
 * with it, and TypeScript 7, which the project is compiled with, has none under that name.
 */
export { ts as default } from '@ts-morph/common';
