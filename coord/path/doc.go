// Package path decides which way messages to each other host take: the mesh,
// or, when that fails, streams between the hosts' own onion services.
//
// A host is deaf to another one whose signs of life stopped coming over the
// mesh. It then wants a stream to the other's onion service, and both use it as
// long as one of them is deaf: each says on the stream whether it is. Messages
// go over the mesh as well meanwhile, now and then, and three in a row end the
// deafness. A stream that nobody needs any more ends after a while.
//
//	direct --deaf, stream open--> onion --nobody deaf, or stream lost--> direct
//
// If both ends are deaf both want the stream. The lower node id dials at once,
// the other one a little later, and Keep settles what remains. Failed dials are
// repeated after 1 to 60 s.
//
// Frame is what such a stream carries.
//
// Non-goals: who is alive, sockets, authentication. The package starts no
// goroutine and reads no clock; now is a time that only goes forward.
package path
