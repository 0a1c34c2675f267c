// Package words keeps what attempts at chunks write to standard error, on the host
// that ran them: the beginning and the end of each (Words), of those that run in
// memory, of those that ended in a ring of files (Ring), the oldest of which go when
// others need the room.
//
// The files are not synced, and a record that was cut by a crash is dropped: these
// are words for people, and nothing counts by them. What has to outlive the host is
// kept elsewhere, see Said.Short.
//
// Non-goals: whose words are kept, and who may read them.
//
// Goroutines: none. All methods may be called from any goroutine; a read goes through
// the files while others write.
package words
