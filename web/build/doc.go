// Command build makes web/dist, the page as it is served, of web/ui: one script and
// one style sheet, each named after its content, and index.html, which names them.
// Of web/worker it makes web/worker/dist, a page that has a browser compute chunks.
// It needs web/ui/node_modules (make web fetches them); nothing else of the project
// needs either.
//
//	cd web/build && go run . -check
package main
