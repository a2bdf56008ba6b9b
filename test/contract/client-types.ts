import { registerHooks } from 'node:module';
import type openapiTS from 'openapi-typescript';
import type { astToString } from 'openapi-typescript';

type Document = Exclude<Parameters<typeof openapiTS>[0], string | URL | Buffer>;
interface Generator {
  default: typeof openapiTS;
  astToString: typeof astToString;
}

const TYPESCRIPT_API = new URL('./typescript-api.ts', import.meta.url).href;

/** What openapi-typescript makes of a document: the types that openapi-fetch is used with. */
export async function clientTypes(document: unknown): Promise<string> {
  const hooks = registerHooks({
    resolve: (specifier, context, next) =>
      specifier === 'typescript' && context.parentURL?.includes('/openapi-typescript/')
        ? { url: TYPESCRIPT_API, format: 'module-typescript', shortCircuit: true }
        : next(specifier, context),
  });
  try {
    const generator = (await import('openapi-typescript')) as Generator;
    return generator.astToString(await generator.default(document as Document));
  } finally {
    hooks.deregister();
  }
}
