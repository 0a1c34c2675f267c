// Package linkwatch lets any host show how all hosts see each other.
//
// While somebody asks Hub.Links, the hub has each other host that lives send its
// half-edges (forward.Links), once for all who ask; 15 s after the last question it
// stops. What a host that does not answer sees is unknown. Hub.Serve is the side of
// the host that sends.
//
// Where there are zones one host of a zone, the Relay, asks those elsewhere, and passes on
// what they say to the others of its zone (forward.LinksNear, Hub.ServeNear): what a host
// says crosses to a zone once. A host of which the relay says nothing is asked directly.
//
// Goroutines: Run, and one of it for each host that is asked, while there is interest.
package linkwatch
