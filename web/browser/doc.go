// Package browser tests the page in a real Chromium: against three real daemons and
// against a double of a large and hostile cluster. It runs guests in the browser
// and in a host's runner, and holds one against the other. `make test-web` runs it.
//
// testdata/axe.min.js.gz is axe-core (MPL-2.0) of the version in
// web/ui/package.json, so that these tests need no npm.
package browser
