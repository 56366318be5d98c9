// Starts dynalite on a free port of the loopback interface, prints the port, and
// ends when its standard input does. Argument: the directory of the package.
const dynalite = require(process.argv[2])
const server = dynalite({ createTableMs: 0, deleteTableMs: 0 })
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
process.stdin.on('end', () => process.exit(0)).resume()
