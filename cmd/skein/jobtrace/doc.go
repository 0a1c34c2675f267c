// Package jobtrace tells what a job did when: the command `skein job trace` for a viewer of
// traces, and the history that `skein job status` shows.
package jobtrace
