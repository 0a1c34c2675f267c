package forward

import "github.com/skein-project/skein/overload"

// LogPosition is where the holder is in the log.
type LogPosition struct {
	// Cursor is that of event.Cursor.
	Cursor string `json:"position"`
}

// Position tells where the log of the holder is.
var Position = &Op[None, LogPosition]{
	Name: "position", At: Holder, Lane: overload.Control,
	Doc: "says where in the log the holder is", Answers: "the position, once it is sure that it still held the lease when it read it",
	Who: "any member",
}
