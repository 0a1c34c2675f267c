// Command measure times the page in headless Chromium and prints what it measured as one
// JSON object: a list of samples for each name. The comparisons of bench/ run it.
//
//	measure [-rounds 5] [-for 3s] [-hosts 500] [-events 100000] paint network events
//	measure [-rounds 5] [-for 3s] -module FILE [-scripts ../worker/dist] guest
//	measure follow LINK    prints when each event was shown, until its input ends
//
// Exit code 3: there is no Chromium.
//
// Goroutines: a server and a watch for each page, which end with it.
package main
