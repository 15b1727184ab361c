fn main() {
    pgstrata_driver::main()
}
