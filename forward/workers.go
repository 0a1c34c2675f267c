package forward

import (
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/overload"
)

// Workers returns what the scheduler knows of the workers.
var Workers = &Op[None, api.Workers]{
	Name: "workers", At: Holder, Lane: overload.List, Key: "workers",
	Doc: "says what the scheduler knows of the workers", Answers: "the first 4096 of them",
	Who: "any member",
}

// WorkerGroups is Workers with the outside workers of each gateway as one.
var WorkerGroups = &Op[None, api.Workers]{
	Name: "worker_groups", At: Holder, Lane: overload.List, Key: "workers",
	Doc: "says what the scheduler knows of the workers, those of each gateway as one", Answers: "the first 4096 of them",
	Who: "any member",
}
