import { registerHooks } from 'node:module';
import { type Mutant, mutantNamed } from './mutants.ts';

/**
 * Takes a guard out of the source as it is loaded, in memory only. Must run before anything of src/ is imported;
 * `assertMutated` tells afterwards whether every edit found its place.
 */
export function mutate(name: string): { assertMutated(): void } {
  const mutant = mutantNamed(name);
  const open = new Set(mutant.edits);
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      const edits = mutant.edits.filter((edit) => url.endsWith(`/${edit.file}`));
      if (edits.length === 0) return loaded;
      let source = String(loaded.source);
      for (const edit of edits) {
        source = edited(source, edit, mutant);
        open.delete(edit);
      }
      return { ...loaded, source };
    },
  });
  return {
    assertMutated() {
      for (const edit of open) throw new Error(`mutant ${name}: ${edit.file} was never loaded`);
    },
  };
}

export function edited(source: string, edit: Mutant['edits'][number], mutant: Mutant): string {
  const parts = source.split(edit.find);
  if (parts.length !== 2) {
    throw new Error(
      `mutant ${mutant.name}: its snippet stands ${parts.length - 1} times in ${edit.file}, not once`,
    );
  }
  return parts.join(edit.put);
}
