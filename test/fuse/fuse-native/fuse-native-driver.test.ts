import { type Limitation, limitations } from '../../../src/fuse/fuse-native/limitations.ts';
import { mountLifeSuite } from '../../conformance/mount-life-suite.ts';
import { mountSuite, type SuiteOptions } from '../../conformance/mount-suite.ts';

const options: SuiteOptions = {
  driver: 'fuse-native',
  requirements: ['fuse-native'],
  limitations: Object.keys(limitations) as Limitation[],
};

mountSuite(options);
mountLifeSuite(options);
