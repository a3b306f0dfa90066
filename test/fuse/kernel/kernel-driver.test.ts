import { mountLifeSuite } from '../../conformance/mount-life-suite.ts';
import { mountSuite, type SuiteOptions } from '../../conformance/mount-suite.ts';

const options: SuiteOptions = { driver: 'kernel', requirements: ['koffi'], limitations: [] };

mountSuite(options);
mountLifeSuite(options);
