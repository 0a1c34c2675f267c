-- names(id): the specs of the jobs of which a worker has chunks.
return {'OK', state(ARGV[2])[5]}
