import fc from 'fast-check';

/**
 * Properties try the same values on every run, so that a change fails for what it changed. PROPERTY_SEED=1, or any other number, tries
 * others; what fails names its own seed.
 */
fc.configureGlobal({
  seed: Number(process.env['PROPERTY_SEED'] ?? 20_260_101),
  // Otherwise nothing has more than ten elements, whatever length is allowed.
  defaultSizeToMaxWhenMaxSpecified: true,
});
