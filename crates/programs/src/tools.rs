fn main() {
    pgstrata_tools::main()
}
